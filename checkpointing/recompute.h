// Recomputation: a pass that computes activations again instead of keeping them (activation
// checkpointing, gradient checkpointing).
//
// A tensor tagged `recompute` dies after the forward pass. Before the first later node that reads
// it, its producer runs once more: a clone that reads kept and persistent tensors, or results of
// further clones, back to the nearest available tensors.
//
// - A forward result that no later node reads is not kept for a clone: another clone makes it.
//   Scalars are kept, such as the largest magnitude of what is quantized again, and what one block
//   gives to another, unless cheap nodes make it of what is kept: otherwise blocks would be made
//   again from the first one.
// - Expensive nodes (matrix products, attention) are cloned once. A clone of a cheap one
//   (OpDef::cheap_to_recompute: norms, activations, casts, …) is dropped between two uses and made
//   again if all its inputs are available at the second use anyway: so no cheap intermediate of a
//   chain waits for its use.
// - Random ops keep their key, so a clone draws the same numbers.
// - Results that nobody reads any more are left out, both of clones and of the forward pass.
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
  // Runs after fusing and before workspaces are added. Throws InternalError when a clone would read
  // a persistent tensor that has changed since, or write one.
  graph::PassResult Run(graph::Program& program) override;
};

}  // namespace plimsoll::checkpointing
