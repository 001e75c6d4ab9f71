// The part of tensor parallelism that changes gradients between the backward pass and the update.
//
//   backward   %g.grad.sum = all_reduce_start(%g.grad)         of a whole parameter that worked on
//              %g.grad.summed = all_reduce_done(%g.grad.sum)   some rows (sequence parallelism) or
//                                                              some heads (qk_norm); this is its
//                                                              gradient now
//   update     %split_norm = …                                 of split parameters (split_norm.h)
//              %grad_norm = global_norm(%split_norms, %g.grad.summed, …)
//
// All ranks have the same gradients of unsharded parameters; these count once in the norm. Of a
// split parameter each rank has the gradient of its own part, and all parts count.
#pragma once

#include <string_view>
#include <utility>

#include "graph/pass.h"
#include "parallel/tensor_parallel.h"

namespace plimsoll::parallel {

// Changes programs with an update; runs after the update was added and before data parallelism.
// Other programs stay unchanged: gradients that are carried from micro-step to micro-step are
// summed once, in the last micro-step.
class TensorGradients : public graph::Pass {
 public:
  explicit TensorGradients(TensorParallelOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "tensor_gradients"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kSplit, graph::Fact::kUpdated},
            .spoils = graph::FactsFrom(graph::Fact::kDivided)};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  TensorParallelOptions options_;
};

}  // namespace plimsoll::parallel
