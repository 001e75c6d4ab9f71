// Computes activations again instead of keeping them.
//
// A tensor tagged `recompute` dies after the forward pass. Before the first later node that reads
// it, its producer runs once more: a clone that reads kept and persistent tensors, or results of
// further clones, back to the nearest tensors that are there.
//
// - A forward result that nothing later reads is not kept for a clone's sake: a clone makes it.
// - Nodes that cost (matrix products, attention) are cloned once. A clone of a cheap one
//   (OpDef::cheap_to_recompute: norms, activations, casts, …) is dropped between two uses and made
//   again, when all that it reads is there at the second use anyhow: so no cheap intermediate of a
//   chain waits for its own use.
// - Random ops keep their key, so a clone draws the same numbers.
// - Results that nobody reads any more are left out, of clones and of the forward pass alike.
//
// Clones are called NAME.again, in the phase `recompute`.
#pragma once

#include "graph/pass.h"

namespace plimsoll::checkpointing {

class Recompute : public graph::Pass {
 public:
  std::string_view name() const override { return "recompute"; }
  // After fusing, before workspaces are added. InternalError when a clone would read a persistent
  // tensor that has changed since, or write one.
  graph::PassResult Run(graph::Program& program) override;
};

}  // namespace plimsoll::checkpointing
