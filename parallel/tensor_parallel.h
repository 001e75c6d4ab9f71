// Tensor and sequence parallelism: the ranks of the tensor axis divide the work of every layer.
// Shoeybi et al. 2019, "Megatron-LM", section 3; Korthikanti et al. 2022, "Reducing Activation
// Recomputation in Large Transformer Models", section 4.2.
//
//   forward
//     %norm = layer_norm(%x, …)
//     %norm.whole = sum_gradient(%norm)      Megatron's f: x itself; its gradient is summed
//     %fc = linear(%norm.whole, %fc.weight)  some of the outputs: [B,T,F/R]
//     %act = gelu(%fc)                       each rank by itself
//     %proj = linear(%act, %proj.weight)     of some of the inputs: a part of the sum
//     %proj.sum = all_reduce(%proj)          Megatron's g: the gradient passes as it is
//
// With `sequence`, the tensors between g and f are sharded, too: each rank has B·T/R rows of
// [B·T,D]. Then g is a reduce_scatter and f an all_gather, and each is the gradient of the other.
//
// An op declares which sharded inputs it accepts (graph::ShardingRule); an op that declares nothing
// needs unsharded inputs.
//
// There are two passes: this one for the forward pass, before autodiff, and one for the update
// (parallel/tensor_gradients.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "graph/pass.h"
#include "graph/shape.h"

namespace plimsoll::parallel {

struct ParameterPart {
  enum Split {
    // A linear layer's rank has some of its outputs; an embedding's or the head's has some tokens.
    kRows,
    kColumns,  // a linear layer's rank has some of its inputs
  };
  Split split;
  graph::Shape shape;  // the shape of this rank's shard
};

struct TensorParallelOptions {
  int64_t ranks = 1;
  bool sequence = false;
  std::map<std::string, ParameterPart> parts;  // parts by parameter name; other parameters are
                                               // unsharded
};

// Throws InternalError if an op that needs an unsharded tensor reads a sharded tensor.
class TensorParallel : public graph::Pass {
 public:
  explicit TensorParallel(TensorParallelOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "tensor_parallel"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kTyped},
            .gives = {graph::Fact::kSplit},
            .spoils = graph::FactsFrom(graph::Fact::kCached)};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  TensorParallelOptions options_;
};

}  // namespace plimsoll::parallel
