// Policies of activation checkpointing: which activations are kept, recomputed or offloaded to the
// host. A policy sets Tensor::retention on the saved set (saved.h); the passes Recompute and
// Offload act on it.
//
//   none       everything is kept
//   block      only the input of each block is kept (Chen et al. 2016, "Training Deep Nets with
//              Sublinear Memory Cost"): activations that no other block reads are recomputed.
//              Blocks are the scopes "block.N"; activations outside any block are kept.
//   every k    the same, with k consecutive blocks as one
//   selective  recomputes what the patterns of `recompute` match, except matches of `save`
//   explicit   a retention for each tensor by name, as the solver chose
//
// A pattern is a preset, which ops declare (OpDef::recompute_preset: `norms`, `activations`,
// `attention`), an op kind (`gelu`) or a glob over names of tensors (`block.*.mlp.fc`). An op's
// further results, such as a norm's statistics, have the retention of its first result: they are
// small, and running the op again computes them at no extra cost. With a preset, 8-bit codes of a
// kept tensor are recomputed from the tensor.
//
// Unsharded parameters, gathered from data ranks' shards (ZeRO, stage 3), are saved for the
// backward pass like activations. Policies and patterns don't apply to them: only `reshard` does.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::checkpointing {

// Patterns, and the configuration key that sets them. Messages about the patterns begin with the
// key: "run.yaml:12: checkpointing.recompute".
struct Patterns {
  std::vector<std::string> patterns;
  std::string key;
  bool by_default = false;  // whether the patterns are the default and not the user's; a default
                            // preset may match nothing
};

struct Options {
  enum class Policy { kNone, kBlock, kEvery, kSelective, kExplicit };
  Policy policy = Policy::kNone;
  int64_t every = 1;  // for kEvery: the number of consecutive blocks of which only the first one's
                      // input is kept
  Patterns recompute{{}, "checkpointing.recompute"};  // for kSelective: what is recomputed
  Patterns save{{}, "checkpointing.save"};            // for kSelective: exceptions from `recompute`
  // Selects the kept activations that are offloaded to the host. For all policies except kExplicit.
  Patterns offload{{}, "checkpointing.offload"};
  // Whether unsharded parameters are freed after the forward pass and gathered again in the
  // backward pass, instead of being kept. For all policies except kExplicit.
  bool reshard = true;
  // For kExplicit: maps a tensor's name to its retention. Activations that are not in the map are
  // kept.
  std::map<std::string, graph::Retention> retention = {};
};

class TagActivations : public graph::Pass {
 public:
  explicit TagActivations(Options options) : options_(std::move(options)) {}
  std::string_view name() const override { return "tags"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kSimplified, graph::Fact::kFused},
            .gives = {graph::Fact::kTagged},
            .spoils = {}};
  }
  // Throws a UserError that begins with the key if a pattern matches no activation of the saved
  // set, or if a pattern of `offload` matches only recomputed ones. Throws InternalError if an
  // explicit tag names a tensor that is not in the saved set.
  graph::PassResult Run(graph::Program& program) override;

 private:
  Options options_;
};

}  // namespace plimsoll::checkpointing
