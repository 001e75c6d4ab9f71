// 8-bit linear layers (amp.fp8): their matrix products multiply 8-bit codes
// (ops/linear/quantize.h). Each tensor of codes has one scale, computed from the largest magnitude
// of the tensor, now or in earlier steps. Micikevicius et al. 2022, "FP8 Formats for Deep
// Learning".
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "amp/precision_policy.h"
#include "graph/autodiff.h"
#include "graph/block.h"
#include "graph/pass.h"

namespace plimsoll::amp {

// Whether `block` is one of the first `ends` or the last `ends` blocks.
bool IsAtAnEnd(const graph::Blocks& blocks, int block, int64_t ends);

// Marks the linear layers whose products get 8-bit operands: layers in blocks with 16-bit operands.
// Layers of the first and last options.fp8.skip_ends blocks, and layers whose weight matches a
// pattern of options.fp8.skip, are not marked. Layers outside the blocks (heads, embeddings) are
// few and sensitive, and are not marked either. Runs before autodiff, which passes the mark on to
// the layer's gradients, and before tensor parallelism, which divides weights.
class MarkFp8 : public graph::Pass {
 public:
  explicit MarkFp8(AmpOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "mark_fp8"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kTyped},
            .gives = {graph::Fact::kMarked},
            .spoils = graph::FactsFrom(graph::Fact::kDifferentiated)};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  AmpOptions options_;
};

// Replaces the products of marked layers by products of codes. Runs after autodiff and
// LowGradients, before the update:
//
//   %y = linear(%x, %w, %b)               %xl = largest_magnitude(%x)
//                                         %xt, %xq, %xs = quantize(%x, %xl)
//                                         %wl = largest_magnitude(%w)
//                                         _, %wq, %ws = quantize(%w, %wl)
//                                         %y = scaled_linear(%xq, %wq, %xs, %ws, %b)
//
//   %dw, %db = linear_dw(%x, %dy)         %dyl = largest_magnitude(%dy)
//                                         %dyt, %dyq, %dys, %db = quantize(%dy, %dyl)
//   %dx = linear_dx(%dy, %w)              %dw = scaled_linear(%dyt, %xt, %dys, %xs)
//                                         %wt, _, %ws' = quantize(%w, %wl)
//                                         %dx = scaled_linear(%dyq, %wt, %dys, %ws')
//
// A tensor that is read several times is quantized once. Of x, only the transposed codes and their
// scale are saved for the backward pass. A weight is quantized from its 16 bits in each phase that
// reads its codes. So no codes of weights are saved, and a weight that is gathered from ranks or
// fetched from the host is present when it is quantized. The weight's largest magnitude is found
// once, and saved. A layer whose shapes matrix units don't take (ops/linear/scaled_linear.h) stays
// in 16 bits.
//
// With a window (Fp8Options::window), the scales of activations and gradients are computed from the
// largest magnitudes of earlier steps. The largest magnitudes of the current step become a carried
// state, one for each objective:
//
//   %xt, %xq, %xs = quantize(%x, %xl, _, %fp8_largest) {index=0}
//   …
//   %found = stack(%xl, %dyl, …)
//   %fp8_largest.pending = max_magnitude(%found)
//
// The update commits the pending magnitudes to %fp8_largest by means of %fp8_largest.history
// (ops/linear/largest_history.h). The history stores the checksum of these layers' names
// (graph::Tensor::names_crc), so that a run with other layers doesn't continue it.
//
// With Fp8Options::pre_activations, a pre-activation is saved as e4m3 codes, and its readers read
// these codes. A pre-activation is the result of a marked layer that only activation functions of
// ops/linear/quantize_activation.h and their gradients read:
//
//   %y = linear(%x, %w)                   %y = scaled_linear(…)
//   %g = gelu(%y)                         %yl = largest_magnitude(%y)
//                                         _, %yq, %ys = quantize(%y, %yl)
//                                         %z = dequantize(%yq, %ys)
//                                         %g = gelu(%z)
//
//   %dy = gelu_backward(%y, %dg)          %z' = dequantize(%yq, %ys)
//                                         %dy = gelu_backward(%z', %dg)
//
// With Fp8Options::counts, the metric `kCounts` has the shares of a step's quantized values that
// are saturated, zeroed and overflowed (ops/linear/count_codes.h).
class Fp8Products : public graph::Pass {
 public:
  static constexpr std::string_view kCounts = "fp8_counts";  // f32[3], metric

  struct Options {
    Fp8Options codes;
    std::string objective = {};  // name of the objective; its states' names contain it
    graph::Carry carry = graph::Carry::kNone;
    bool update = false;       // whether the program ends the step
    int64_t tensor_ranks = 1;  // ranks that hold parts of the quantized tensors
    int64_t parts = 1;         // micro-steps of a step, summed over all ranks
  };
  Fp8Products() = default;
  explicit Fp8Products(Options options) : options_(std::move(options)) {}
  std::string_view name() const override { return "fp8_products"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kMarked, graph::Fact::kDifferentiated},
            .gives = {graph::Fact::kQuantized},
            .spoils = graph::FactsFrom(graph::Fact::kSimplified)};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  Options options_;
};

}  // namespace plimsoll::amp
