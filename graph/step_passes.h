// Passes over the parts of a step, its losses, micro-steps and objectives: in which order they are
// computed, what they share, and how long their gradients live.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "graph/pass.h"

namespace plimsoll::graph {

// Where a loss is a sum of losses, each is computed when the gradients of those before it are done:
// what they kept for their gradients then needs no memory any more.
//
//   forward                        forward
//     %real = …                      %real = …
//     %fake = …                    backward
//     %loss = add(%real, %fake)      … of %real
//   backward                       forward
//     … of %real                     %fake = …
//     … of %fake                     %loss = add(%real, %fake)
//                                  backward
//                                    … of %fake
//
// Moves forward nodes only; the others keep their order, in which Autodiff takes the gradients of
// one loss after the other. No number depends on it. A forward node that no loss reads stays after
// what it reads or, where that is nothing, after the node before it.
// For programs of one micro-step, after the passes that tell the forward pass by its place.
class LossByLoss : public Pass {
 public:
  // `loss`: the tensor that is trained; a program without it is left as it is.
  explicit LossByLoss(std::string loss) : loss_(std::move(loss)) {}
  std::string_view name() const override { return "loss_by_loss"; }
  Contract contract() const override {
    return {.needs = {Fact::kDifferentiated},
            .gives = {Fact::kByLoss},
            .spoils = {Fact::kScratched},
            .keeps_numbers = true};
  }
  PassResult Run(Program& program) override;

 private:
  std::string loss_;
};

// train.blocks_first: all micro-steps of a program go through a block before any of them goes
// through the next one. What a block needs of its weights, and the gradients of these, are then
// needed in two places of the program instead of two places of every micro-step:
//
//   one micro-step after another         blocks first
//   forward    block.0 block.1           forward    block.0   forward 1  block.0
//   backward   block.1 block.0           forward    block.1   forward 1  block.1
//   forward 1  block.0 block.1           backward   block.1   backward 1 block.1
//   backward 1 block.1 block.0           backward   block.0   backward 1 block.0
//   update                               update
//
// Runs on a program of several micro-steps (graph/micro_steps.h), before updates move. The nodes of
// a micro-step keep their order, which is cut into segments:
//
// - the nodes of one block (graph/block.h) and direction, from the first to the last one; backward
//   and recomputed nodes have one direction. Where blocks overlap, as those that are recomputed
//   together, they are one segment;
// - the nodes between two such segments;
// - the update.
//
// Views, halves of transfers, and what takes in their results go with the nodes around them.
// Segments of the micro-steps correspond by block and direction, however many nodes they have, and
// nodes are ordered by segment, and within a segment by micro-step.
//
// No number changes: what micro-steps do to a carried tensor (add to a gradient, read what another
// has written) keeps its order. Where this order cannot be kept without tearing a block from its
// segment, the program is left as it was. It is so with tied weights: the first micro-step adds to
// their gradient at the embedding, last of all, before the second one does at the head.
class BlocksFirst : public Pass {
 public:
  std::string_view name() const override { return "blocks_first"; }
  Contract contract() const override {
    return {.needs = {Fact::kJoined},
            .gives = {Fact::kOrdered},
            .spoils = {Fact::kMoved, Fact::kTemporary, Fact::kSliced, Fact::kResident,
                       Fact::kScratched},
            .keeps_numbers = true};
  }
  PassResult Run(Program& program) override;
};

// Gradients of micro-steps that one program holds together.
//
// Micro-steps carry gradients in persistent tensors, each changed in place. Where a program holds
// all micro-steps of an update, such a gradient is written there before anything reads it, and
// nothing needs it afterwards: it becomes a temporary, whose memory others use before and after.
// Temporaries are written once, so each sum but the last is a tensor of its own:
//
//   %w.grad = linear_dw(%x, %dy)                       %w.grad.sum = linear_dw(%x, %dy)
//   %w.grad = linear_dw(%x1, %dy1, %w.grad)            %w.grad = linear_dw(%x1, %dy1, %w.grad.sum)
//
// which share memory by the op's in-place pair. Runs on the program of a whole update only, when
// its updates are where they stay: what other programs read of a gradient would be lost. Gradients
// of which a part is taken before the last sum stay as they are, and so do those on the host that
// the update at the end of the program reads: they leave the device until then. One that is read
// sooner is a temporary of the device.
class TemporaryGradients : public Pass {
 public:
  std::string_view name() const override { return "temporary_gradients"; }
  Contract contract() const override {
    return {.needs = {Fact::kJoined},
            .gives = {Fact::kTemporary},
            .spoils = {Fact::kSliced, Fact::kResident, Fact::kScratched},
            .keeps_numbers = true};
  }
  PassResult Run(Program& program) override;
};

// Forward nodes of a later micro-step that compute what an earlier one has computed already give
// way to those of the earlier one. So two objectives that read the same data share what neither of
// their updates changes: the pictures of a generator serve the update of its discriminator and its
// own.
//
//   forward                                    forward
//     %fake = linear(%noise, %generator.w)       %fake = linear(%noise, %generator.w)
//     …                                          …
//   update                                     update
//     %critic.w = adamw(%critic.w, …)            %critic.w = adamw(%critic.w, …)
//   forward 1                                  forward 1
//     %again = linear(%noise, %generator.w)      %said.2 = linear(%fake, %critic.w)
//     %said.2 = linear(%again, %critic.w)
//
// A node gives way if it has the op, attributes and inputs of an earlier one, nothing has been
// written to these inputs or to the results in between, and all that it writes are temporaries. The
// earlier one then also writes results that only this one's readers ask for, and loses its
// workspace, which may be too small for that.
// Nodes that draw random numbers share them only if they have one key and one slot. Transfers and
// what is not forward stay: to compute an activation again is what recomputation means to do.
class ShareForward : public Pass {
 public:
  std::string_view name() const override { return "share_forward"; }
  Contract contract() const override { return {.needs = {Fact::kJoined}, .keeps_numbers = true}; }
  PassResult Run(Program& program) override;
};

}  // namespace plimsoll::graph
