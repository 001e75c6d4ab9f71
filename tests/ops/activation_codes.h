// Calls of quantize_activation, and of the three ops that it is made of, on any device.
#pragma once

#include <string>
#include <vector>

#include "ops/linear/quantize_activation.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {

// The arguments of such a call.
struct ActivationCodes {
  // Outputs.
  enum : size_t { kTransposed, kCodes, kScale, kSums, kLargest, kOutputs };

  std::string of;
  graph::Attributes attributes;
  TestTensor a, dy, acc_sums, expected;

  bool backward() const { return of.ends_with("_backward"); }

  // y's rows are those of `half`, of F columns; K is F, or 2·F for SwiGLU's gradient. Nothing is
  // expected if `magnitude` is 0.
  ActivationCodes(std::string op, std::string_view approximate, graph::DType from, graph::DType to,
                  const graph::Shape& half, double magnitude)
      : of(std::move(op)),
        attributes({{"dtype", std::string(graph::Name(to))}, {"index", int64_t{1}}, {"of", of}}) {
    const bool gated = of.starts_with("swiglu");
    const int64_t columns = half.dim(-1);
    a = NormalValues(from, gated ? half.WithLast(2 * columns) : half, 1, 2);
    if (backward()) dy = NormalValues(from, half, 2);
    const int64_t made = QuantizedActivationType(of, a.type()).shape.dim(-1);
    acc_sums = NormalValues(graph::DType::kFloat32, {made}, 3);
    expected = Values(graph::DType::kFloat32, {3}, {17, magnitude, 19});
    if (!gated) attributes.Set("approximate", std::string(approximate));
  }

  // `run` is RunOp, or RunCudaOp with its libraries.
  template <typename Run>
  std::vector<TestTensor> InOneOp(const Run& run, const std::vector<bool>& want = {}) const {
    return run("quantize_activation", {&a, backward() ? &dy : nullptr, &acc_sums, &expected},
               attributes, want);
  }
  template <typename Run>
  std::vector<TestTensor> InThree(const Run& run) const {
    std::vector<const TestTensor*> operands = {&a};
    if (backward()) operands.push_back(&dy);
    const TestTensor y = run(of, operands, attributes, {})[0];
    const TestTensor largest = run("largest_magnitude", {&y}, {}, {})[0];
    std::vector<TestTensor> all =
        run("quantize", {&y, &largest, &acc_sums, &expected}, attributes, {});
    all.push_back(largest);
    return all;
  }
};

// Calls body(of, approximate) for each activation and gradient.
template <typename Body>
void ForEachActivation(const Body& body) {
  for (const std::string_view of : kQuantizedActivations) {
    body(std::string(of), "tanh");
    if (of.starts_with("gelu")) body(std::string(of), "none");
  }
}

}  // namespace plimsoll::ops
