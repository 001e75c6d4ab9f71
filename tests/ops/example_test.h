// Common parts of the registry's tests of CPU and CUDA kernels: a test with an example as its
// parameter, and the checks for equal bits, however the kernel is run.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/ops/guarded_call.h"

namespace plimsoll::ops {

using Outputs = std::vector<std::optional<HostTensor>>;

// The relative error of rounding to a 16-bit type; zero for wider types.
inline double Rounding(graph::DType dtype) {
  return dtype == graph::DType::kBFloat16 ? 0x1p-8 : dtype == graph::DType::kFloat16 ? 0x1p-11 : 0;
}

// max(1, max |value|) over the finite values.
inline double Largest(const HostTensor& tensor) {
  double largest = 1;
  for (int64_t i = 0; i < tensor.type.shape.elements(); ++i) {
    const double value = std::fabs(tensor.value(i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return largest;
}

class ExampleTest : public testing::TestWithParam<Example> {
 protected:
  using Run = std::function<Outputs(const GuardedCall&)>;

  const Example& example() const { return GetParam(); }
  const graph::OpDef& op() const { return graph::OpRegistry::Get().Require(example().op); }

  GuardedCall Call(const Outputs& inputs) const {
    return {.op = op(), .attributes = example().attributes, .inputs = inputs};
  }

  // Each in-place pair of the op alone, then as many as can be combined.
  void ExpectSameBitsInPlace(graph::DType dtype, const Run& run) const {
    SCOPED_TRACE(graph::Name(dtype));
    const Outputs inputs = MakeInputs(example(), dtype);
    std::vector<graph::InPlacePair> together;
    Outputs expected;
    for (const graph::InPlacePair& pair : op().in_place) {
      if (static_cast<size_t>(pair.input) >= inputs.size() || !inputs[pair.input]) continue;
      if (expected.empty()) expected = run(Call(inputs));
      if (static_cast<size_t>(pair.output) >= expected.size()) continue;
      // Of an op that may change the type, the planner shares only memory of one size.
      if (inputs[pair.input]->bytes.size() != expected[pair.output]->bytes.size()) continue;
      GuardedCall call = Call(inputs);
      call.shared = {pair};
      EXPECT_EQ(run(call), expected) << "input " << pair.input << " output " << pair.output;
      const bool taken = std::any_of(together.begin(), together.end(), [&](const auto& other) {
        return other.input == pair.input || other.output == pair.output;
      });
      if (!taken) together.push_back(pair);
    }
    if (together.size() > 1) {
      GuardedCall call = Call(inputs);
      call.shared = together;
      EXPECT_EQ(run(call), expected) << "all pairs at once";
    }
  }

  // With each of the optional outputs left out, and with it its largest magnitude.
  void ExpectSameBitsWithoutOptionalOutputs(graph::DType dtype, const Run& run) const {
    SCOPED_TRACE(graph::Name(dtype));
    for (size_t left_out = 0; left_out < op().outputs.size(); ++left_out) {
      if (!op().outputs[left_out].optional) continue;
      const Outputs inputs = MakeInputs(example(), dtype);
      Outputs expected = run(Call(inputs));
      if (left_out >= expected.size()) break;  // the op makes it for other inputs
      GuardedCall call = Call(inputs);
      call.want.assign(op().outputs.size(), true);
      const std::vector<int>& found = op().finds_largest;
      const size_t first_largest = op().outputs.size() - found.size();
      for (size_t i = 0; i < expected.size(); ++i) {
        const bool of_it =
            i >= first_largest && found[i - first_largest] == static_cast<int>(left_out);
        if (i != left_out && !of_it) continue;
        call.want[i] = false;
        expected[i].reset();
      }
      EXPECT_EQ(run(call), expected) << "without output " << left_out;
    }
  }

  // With the attribute "largest": the bits of the results without it, and their largest magnitudes
  // as they are stored.
  void ExpectLargestOfResults(graph::DType dtype, const Run& run) const {
    if (!example().attributes.Has("largest")) return;
    SCOPED_TRACE(graph::Name(dtype));
    const Outputs inputs = MakeInputs(example(), dtype);
    const Outputs all = run(Call(inputs));
    graph::Attributes without;
    for (const auto& [name, value] : example().attributes.entries()) {
      if (name != "largest") without.Set(name, value);
    }
    const Outputs expected = run({.op = op(), .attributes = without, .inputs = inputs});
    const std::vector<int>& found = op().finds_largest;
    ASSERT_EQ(all.size(), expected.size() + found.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(all[i], expected[i]) << "output " << i;
    for (size_t k = 0; k < found.size(); ++k) {
      const HostTensor& result = *expected[static_cast<size_t>(found[k])];
      double largest = 0;
      for (int64_t i = 0; i < result.type.shape.elements(); ++i) {
        largest = std::max(largest, std::fabs(result.value(i)));
      }
      EXPECT_EQ(all[expected.size() + k]->value(0), static_cast<float>(largest))
          << "of output " << found[k];
    }
  }
};

inline std::string ExampleName(const testing::TestParamInfo<Example>& info) {
  std::string name = info.param.op;
  if (!info.param.label.empty()) name += "_" + info.param.label;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

// For GoogleTest's messages.
inline void PrintTo(const Example& example, std::ostream* out) {
  *out << example.op << " " << example.label;
}
inline void PrintTo(const HostTensor& tensor, std::ostream* out) {
  *out << tensor.type.ToString();
  const int64_t n = std::min<int64_t>(8, tensor.type.shape.elements());
  for (int64_t i = 0; i < n; ++i) *out << " " << tensor.value(i);
}

}  // namespace plimsoll::ops
