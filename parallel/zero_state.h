// ZeRO, stages 1 and 2: each data rank updates only its own shard of a sharded parameter
// (zero_shards.h), and holds the optimizer's state for that shard alone. Rajbhandari et al. 2020,
// "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", section 5.
//
//   forward    %w.own = own_part(%w)
//   update     %w.grad.own = own_part(%w.grad)
//              %split_norm = …                                 split_norm.h
//              %w.own, %w.m, … = adamw(%w.own, %w.grad.own, %w.m, …)
//
// Only this rank's shard of a gradient is read, so data_parallel reduce-scatters the sum. The other
// shards of %w keep their old values until they are gathered (zero_weights.h).
//
// Muon needs unsharded matrices (optim/update.h). Each rank updates its shard of the momentum,
// gathers the other shards, orthogonalizes the unsharded matrix, as every rank does, and takes its
// shard of the result:
//
//   update     %w.muon, %w.momentum = muon_momentum(%w.grad.own, %w.momentum, …)
//              %w.muon.gathered = all_gather(%w.muon)
//              %w.muon.x.6 = …                                 Newton-Schulz of the whole
//              %w.muon.own = own_part(%w.muon.x.6)
//              %w.own = sgd(%w.own, %w.muon.own)
//
// With several micro-steps and stage 2, the gradient that is carried from one micro-step to the
// next is a shard, too. Autodiff leaves such gradients as temporaries (AutodiffOptions::carries),
// and this pass adds, after the last writer of each gradient,
//
//   backward   %w.grad.own = own_part(%w.grad.micro)
//              %w.grad = add(%w.grad, %w.grad.own)             the first micro-step only writes
#pragma once

#include <cstdint>

#include "graph/autodiff.h"
#include "graph/pass.h"

namespace plimsoll::parallel {

struct ZeroStateOptions {
  int64_t ranks = 1;  // the number of data ranks
  // How this program carries the shards of gradients; kNone means that it carries no gradients, or
  // unsharded gradients.
  graph::Carry carry = graph::Carry::kNone;
};

// Runs after Update and before DataParallel. Shards draw the numbers for stochastic rounding from
// the slot "rng", which differs from rank to rank.
class ZeroState : public graph::Pass {
 public:
  explicit ZeroState(ZeroStateOptions options) : options_(options) {}
  std::string_view name() const override { return "zero_state"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kDifferentiated},
            .gives = {graph::Fact::kDivided},
            .spoils = graph::FactsFrom(graph::Fact::kCut)};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  ZeroStateOptions options_;
};

}  // namespace plimsoll::parallel
