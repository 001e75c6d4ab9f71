// Which activations are kept, computed again or sent to the host: a policy sets Tensor::retention
// on the saved set (saved.h); the passes Recompute and Offload act on it.
//
//   none       everything is kept
//   block      of each block only its input is kept (Chen et al. 2016, "Training Deep Nets with
//              Sublinear Memory Cost"): whatever a block makes that no other block reads is
//              recomputed. Blocks are the scopes "block.N"; what lies outside any is kept.
//   every k    the same, with k consecutive blocks as one
//   selective  what the patterns of `recompute` name, without what those of `save` name
//   explicit   by name of tensor, as a solver chose
//
// A pattern is a preset, which ops declare (OpDef::recompute_preset: `norms`, `activations`,
// `attention`), an op kind (`gelu`) or a glob over names of tensors (`block.*.mlp.fc`). An op's
// further results, such as a norm's statistics, are retained as its first one: they are small, and
// running the op again gives them for nothing.
//
// Parameters that data ranks have in parts (ZeRO's third stage) wait in whole for the backward pass
// like activations, but no policy and no pattern is about them: `reshard` alone is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::checkpointing {

// Patterns and the key that they were given by, which starts messages about them:
// "run.yaml:12: checkpointing.recompute".
struct Patterns {
  std::vector<std::string> patterns;
  std::string key;
};

struct Options {
  enum class Policy { kNone, kBlock, kEvery, kSelective, kExplicit };
  Policy policy = Policy::kNone;
  int64_t every = 1;                                  // blocks between kept inputs; kEvery
  Patterns recompute{{}, "checkpointing.recompute"};  // kSelective
  Patterns save{{}, "checkpointing.save"};            // kSelective: exceptions
  // Of what is kept, these wait on the host; all policies but kExplicit.
  Patterns offload{{}, "checkpointing.offload"};
  // Whole parameters go after the forward pass and are gathered again in the backward pass; else
  // they are kept. All policies but kExplicit.
  bool reshard = true;
  // kExplicit; what is not named is kept.
  std::map<std::string, graph::Retention> retention = {};
};

class TagActivations : public graph::Pass {
 public:
  explicit TagActivations(Options options) : options_(std::move(options)) {}
  std::string_view name() const override { return "tags"; }
  // UserError, beginning with its key, on a pattern that matches no activation of the saved set,
  // or one of `offload` that matches only what is recomputed. InternalError on an explicit tag for
  // something else than an activation of the saved set.
  graph::PassResult Run(graph::Program& program) override;

 private:
  Options options_;
};

}  // namespace plimsoll::checkpointing
