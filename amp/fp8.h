// 8-bit linear layers (amp.fp8): their products multiply codes (ops/linear/quantize.h), each tensor
// with a scale from its largest magnitude, its own or that of earlier steps. Micikevicius et al.
// 2022, "FP8 Formats for Deep Learning".
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "amp/precision_policy.h"
#include "graph/autodiff.h"
#include "graph/block.h"
#include "graph/pass.h"

namespace plimsoll::amp {

// Whether a block is one of the `ends` first or `ends` last ones.
bool IsAtAnEnd(const graph::Blocks& blocks, int block, int64_t ends);

// Marks the linear layers whose products are to have 8-bit operands: those in blocks, but for
// options.fp8.skip_ends at each end, with operands of 16 bits, whose weight no pattern of
// options.fp8.skip names. Outside the blocks lie heads and embeddings, which are few, and
// sensitive. Runs before autodiff, which passes the mark on to the layer's gradients, and before
// tensor parallelism, which divides weights.
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

// Makes products of codes of what is marked. Runs after autodiff and LowGradients, before the
// update:
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
// What is read several times is quantized once. Of x only the transposed codes and their scale wait
// for the backward pass. A weight is quantized where its codes are read, from its 16 bits, so that
// no codes of weights wait anywhere, and a weight that is gathered from ranks or comes from the
// host is there when it is needed; its largest magnitude is found once, and waits. A layer whose
// shapes matrix units don't take (ops/linear/scaled_linear.h) stays in 16 bits.
//
// With a window (Fp8Options::window) the scales of what isn't a weight are made of the largest
// magnitudes of earlier steps, and what a step finds becomes a carried state, one for an objective:
//
//   %xt, %xq, %xs = quantize(%x, %xl, _, %fp8_largest) {index=0}
//   …
//   %found = stack(%xl, %dyl, …)
//   %fp8_largest.pending = max_magnitude(%found)
//
// The update commits it to %fp8_largest by %fp8_largest.history (ops/linear/largest_history.h). The
// history has the checksum of the names of these layers (graph::Tensor::names_crc), so that a run
// with other layers doesn't continue it.
//
// With Fp8Options::pre_activations, the result of a marked layer that activation functions of
// ops/linear/quantize_activation.h and their gradients alone read waits as e4m3 codes, and is read
// as these:
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
// With Fp8Options::counts, the metric `kCounts` has the shares of the values that become codes in a
// step which are saturated, zeroed and overflowed (ops/linear/count_codes.h).
class Fp8Products : public graph::Pass {
 public:
  static constexpr std::string_view kCounts = "fp8_counts";  // f32[3], metric

  struct Options {
    Fp8Options codes;
    std::string objective = {};  // whose name is in those of its states (graph/objective.h)
    graph::Carry carry = graph::Carry::kNone;
    bool update = false;       // whether the program ends the step
    int64_t tensor_ranks = 1;  // that have parts of what is quantized
    int64_t parts = 1;         // micro-steps of a step, on all ranks
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
