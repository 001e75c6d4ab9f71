// Passes over the parts of a step (its losses, micro-steps and objectives): in which order they are
// computed, what they share, and how long their gradients live.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "graph/pass.h"

namespace plimsoll::graph {

// If a loss is a sum of losses, computes each term only after the gradients of the terms before it
// are done. The memory of activations that those earlier terms kept for their gradients is then
// free.
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
// Moves forward nodes only. The other nodes keep their order, in which Autodiff takes the gradients
// of one loss after the other. No number changes. A forward node that no loss reads stays after the
// nodes whose results it reads; if it reads no results, it stays after the node before it. Runs on
// programs of one micro-step, after the passes that find the forward pass by its position.
class LossByLoss : public Pass {
 public:
  // `loss`: the tensor that is trained. A program without this tensor is not changed.
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

// train.blocks_first: all micro-steps of a program compute a block before any micro-step computes
// the next block. A block's weights and their gradients are then needed at two places in the
// program instead of two places in every micro-step:
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
//   and recomputed nodes have one direction. Overlapping blocks, such as blocks that are recomputed
//   together, are one segment;
// - the nodes between two such segments;
// - the update.
//
// Views, halves of transfers, and nodes that add the results of transfers to gradients belong to
// the segments around them. Segments of the micro-steps correspond by block and direction, even if
// their numbers of nodes differ. Nodes are ordered by segment, and within a segment by micro-step.
//
// No number changes: the micro-steps' accesses to a carried tensor (adding to a gradient, reading
// what another micro-step has written) keep their order. If that would move a node of a block out
// of its segment, the program is not changed. Tied weights are such a case: the first micro-step
// adds to the gradient of the embedding at the very end of its backward pass, and the second
// micro-step may add to this gradient at the head only after that.
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

// Makes carried gradients temporaries, in a program that holds all micro-steps of an update.
//
// Micro-steps carry gradients in persistent tensors, each changed in place. If a program holds all
// micro-steps of an update, such a gradient is written before anything reads it, and nothing needs
// it afterwards: it can be a temporary, whose memory other tensors use before and after.
// Temporaries are written once, so each sum except the last one is a separate tensor:
//
//   %w.grad = linear_dw(%x, %dy)                       %w.grad.sum = linear_dw(%x, %dy)
//   %w.grad = linear_dw(%x1, %dy1, %w.grad)            %w.grad = linear_dw(%x1, %dy1, %w.grad.sum)
//
// The sums share memory by the op's in-place pair. Runs only on the program of a complete update,
// when its updates are at their final positions: gradients that other programs read would be lost.
// Two kinds of gradients stay persistent: gradients of which a part is read before the last sum;
// and gradients on the host that the update at the end of the program reads, because they are not
// on the device until then. A gradient on the host that is read before that update becomes a
// temporary on the device.
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

// Removes forward nodes of a micro-step that compute results which an earlier micro-step has
// already computed. Two objectives that read the same data then share the results that neither
// update changes: the pictures of a generator are used in the update of its discriminator and in
// its own update.
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
// A node is removed if it has the op, attributes and inputs of an earlier one, no node in between
// has written to these inputs or to the results, and all that it writes are temporaries. The
// earlier node then also writes the optional results that only readers of the removed node need,
// and loses its workspace, which may be too small for that. Nodes that draw random numbers are
// shared only if they have equal keys and slots. Transfers and nodes outside the forward pass stay:
// recomputation repeats activations on purpose.
class ShareForward : public Pass {
 public:
  std::string_view name() const override { return "share_forward"; }
  Contract contract() const override { return {.needs = {Fact::kJoined}, .keeps_numbers = true}; }
  PassResult Run(Program& program) override;
};

}  // namespace plimsoll::graph
