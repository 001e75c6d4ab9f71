// LoRA as a pass over a model's forward program, which runs before all other passes. It adds the A
// and B of adapters/lora.h next to the frozen weights.
//
//   %y = linear(%x, %w, %bias)
// becomes
//   %y.base = linear(%x, %w, %bias)
//   %y.low_rank = linear(%x, %a, _)                     x · Aᵀ for all modules of this weight
//   %y = add_low_rank(%y.base, %y.low_rank, %b)         adds its product with each module's B
//
// In training with dropout, A reads %x through a dropout. Modules that share %x drop the same
// elements. Autodiff is told to treat the weights as frozen (graph/autodiff.h).
#pragma once

#include <utility>

#include "adapters/lora.h"
#include "graph/pass.h"

namespace plimsoll::adapters {

class LoraPass : public graph::Pass {
 public:
  LoraPass(Lora lora, bool training) : lora_(std::move(lora)), training_(training) {}
  std::string_view name() const override { return "lora"; }
  graph::Contract contract() const override {
    return {.spoils = graph::FactsFrom(graph::Fact::kTyped)};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  Lora lora_;
  bool training_;
};

}  // namespace plimsoll::adapters
