// Calls of quantize_norm, and of the three ops that it is made of, on any device.
#pragma once

#include <string>
#include <vector>

#include "ops/norms/quantize_norm.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {

// The arguments of such a call.
struct NormCodes {
  static constexpr size_t kOutputs = quantize_norm::kSum + 1;  // of norms that add

  std::string of;
  graph::Attributes attributes;
  TestTensor x, addend, weight, bias, expected;
  bool biased;

  bool adds() const { return NormAdds(of); }
  bool has_mean() const { return NormHasMean(of); }

  // Nothing is expected if `magnitude` is 0. `with_bias`: unless the norm has none.
  NormCodes(std::string op, bool with_bias, graph::DType from, graph::DType to,
            const graph::Shape& shape, double magnitude)
      : of(std::move(op)),
        attributes({{"dtype", std::string(graph::Name(to))},
                    {"eps", 1e-5},
                    {"index", int64_t{1}},
                    {"of", of}}),
        x(NormalValues(from, shape, 1, 2)),
        addend(NormalValues(from, shape, 2)),
        weight(NormalValues(from, {shape.dim(-1)}, 3)),
        bias(NormalValues(from, {shape.dim(-1)}, 4)),
        expected(Values(graph::DType::kFloat32, {3}, {17, magnitude, 19})),
        biased(with_bias && has_mean()) {}

  // `run` is RunOp, or RunCudaOp with its libraries.
  template <typename Run>
  std::vector<TestTensor> InOneOp(const Run& run, const std::vector<bool>& want = {}) const {
    return run("quantize_norm",
               {&x, adds() ? &addend : nullptr, &weight, biased ? &bias : nullptr, &expected},
               attributes, want);
  }
  // The same outputs in the same order.
  template <typename Run>
  std::vector<TestTensor> InThree(const Run& run) const {
    std::vector<const TestTensor*> operands = {&x};
    if (adds()) operands.push_back(&addend);
    operands.push_back(&weight);
    if (has_mean()) operands.push_back(biased ? &bias : nullptr);
    const std::vector<TestTensor> made = run(of, operands, attributes, {});
    const TestTensor& y = made[adds() ? 1 : 0];
    const TestTensor largest = run("largest_magnitude", {&y}, {}, {})[0];
    std::vector<TestTensor> all =
        run("quantize", {&y, &largest, nullptr, &expected}, attributes, {});
    all.resize(quantize_norm::kLargest);
    all.push_back(largest);
    const size_t statistics = adds() ? 2 : 1;
    if (has_mean()) {
      all.push_back(made[statistics]);
    } else {
      TestTensor zeros(made[statistics].type());
      for (int64_t i = 0; i < zeros.size(); ++i) zeros.set(i, 0);
      all.push_back(zeros);
    }
    all.push_back(made[statistics + (has_mean() ? 1 : 0)]);
    if (adds()) all.push_back(made[0]);
    return all;
  }
};

// Calls body(of, with_bias) for each norm.
template <typename Body>
void ForEachNorm(const Body& body) {
  for (const std::string_view of : kQuantizedNorms) {
    body(std::string(of), false);
    if (NormHasMean(of)) body(std::string(of), true);
  }
}

}  // namespace plimsoll::ops
