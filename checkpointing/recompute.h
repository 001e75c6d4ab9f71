// Recomputation (activation checkpointing, gradient checkpointing): a pass that computes
// activations again instead of keeping them.
//
// A tensor tagged `recompute` dies after the forward pass. Before the first later node that reads
// it, its producer runs once more: a clone that reads kept and persistent tensors, or results of
// further clones, back to the nearest available tensors.
//
// - A forward result that only clones read is not kept: another clone computes it. Two kinds of
//   such results are kept: scalars, such as the largest magnitude of a tensor that is quantized
//   again; and results of a block that another block reads, unless cheap nodes compute the results
//   from kept tensors. If the latter were not kept, recomputation would begin at the first block
//   every time.
// - Expensive nodes (matrix products, attention) are cloned once. The result of a cheap clone
//   (OpDef::cheap_to_recompute: norms, activations, casts, …) is dropped between two uses and
//   computed again, if all its inputs are available at the second use anyway. So no cheap
//   intermediate result takes memory until it is used.
// - Random ops keep their key, so a clone draws the same numbers.
// - Optional results that no node reads any more are removed, from clones and from forward nodes.
//
// Clones are named NAME.again, in the phase `recompute`.
#pragma once

#include "graph/pass.h"

namespace plimsoll::checkpointing {

class Recompute : public graph::Pass {
 public:
  std::string_view name() const override { return "recompute"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kTagged},
            .gives = {graph::Fact::kRecomputed},
            .spoils = {graph::Fact::kFused, graph::Fact::kPrefetched, graph::Fact::kMoved,
                       graph::Fact::kSliced, graph::Fact::kResident, graph::Fact::kOffloaded,
                       graph::Fact::kByLoss, graph::Fact::kScratched},
            .keeps_numbers = true};
  }
  // Runs after fusing and before workspaces are added. Throws InternalError when a clone would
  // write a persistent tensor, or read one that has changed since the forward pass.
  graph::PassResult Run(graph::Program& program) override;
};

}  // namespace plimsoll::checkpointing
