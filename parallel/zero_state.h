// ZeRO, stages 1 and 2: each data rank updates only its own part of a divided parameter
// (zero_shards.h), and holds the optimizer's state for that part alone. Rajbhandari et al. 2020,
// "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", section 5.
//
//   forward    %w.own = own_part(%w)
//   update     %w.grad.own = own_part(%w.grad)
//              %split_norm = …                                 split_norm.h
//              %w.own, %w.m, … = adamw(%w.own, %w.grad.own, %w.m, …)
//
// Only this rank's part of a gradient is read, which is why data_parallel then reduce-scatters the
// sum. The other parts of %w stay old until they are gathered (zero_weights.h).
//
// Muon needs whole matrices (optim/update.h). Each rank updates its part of the momentum, gathers
// the others' parts, makes the whole orthogonal, as every rank does, and takes its part of that:
//
//   update     %w.muon, %w.momentum = muon_momentum(%w.grad.own, %w.momentum, …)
//              %w.muon.gathered = all_gather(%w.muon)
//              %w.muon.x.6 = …                                 Newton-Schulz of the whole
//              %w.muon.own = own_part(%w.muon.x.6)
//              %w.own = sgd(%w.own, %w.muon.own)
//
// With several micro-steps and stage 2, the gradient carried from one to the next is a part too.
// Autodiff leaves such gradients as temporaries (AutodiffOptions::carries), and this pass adds
// after each one's last writer
//
//   backward   %w.grad.own = own_part(%w.grad.micro)
//              %w.grad = add(%w.grad, %w.grad.own)             the first micro-step only writes
#pragma once

#include <cstdint>

#include "graph/autodiff.h"
#include "graph/pass.h"

namespace plimsoll::parallel {

struct ZeroStateOptions {
  int64_t ranks = 1;  // of the data axis
  // How this program carries the parts of gradients; kNone: not at all, or it carries whole
  // gradients.
  graph::Carry carry = graph::Carry::kNone;
};

// Runs after Update and before DataParallel. Parts draw the numbers for stochastic rounding from
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
