// Calls of ops that make a tensor y and its 8-bit codes at once (quantize_activation,
// quantize_norm), and of the three ops whose bytes they have, on any device.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/linear/quantize_activation.h"
#include "ops/norms/quantize_norm.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {

struct CodesCall {
  static constexpr size_t kTransposed = 0, kCodes = 1, kScale = 2;  // outputs
  static constexpr size_t kZeros = 100;                             // in `more`

  std::string op, of;  // `of` makes y alone
  graph::Attributes attributes;
  std::vector<std::optional<TestTensor>> inputs;
  std::vector<size_t> of_inputs;   // those that `of` takes, in its order
  size_t expects = 0;              // the input of what is expected
  size_t scale = 0;                // that of the scale of input 0, if that is codes
  std::vector<size_t> more;        // outputs of `of` that come after the largest magnitude
  size_t y = 0;                    // y's place among the outputs of `of`
  size_t spoils = 0;               // an input of which NaN makes y NaN
  std::optional<size_t> acc_sums;  // an input; absent: sums of columns are no output
  size_t largest() const { return acc_sums ? 4 : 3; }  // an output

  double expected() const { return inputs[expects]->at(1); }
  // `value` becomes an element of y's rows; codes become NaN.
  void Spoil(double value) {
    if (scale > 0 && spoils == 0) {
      inputs[scale]->set(0, std::numeric_limits<double>::quiet_NaN());
    } else {
      inputs[spoils]->set(inputs[spoils]->size() - 2, value);
    }
  }

  std::vector<const TestTensor*> Inputs(const std::vector<size_t>& which) const {
    std::vector<const TestTensor*> some;
    for (const size_t i : which) some.push_back(inputs[i] ? &*inputs[i] : nullptr);
    return some;
  }

  // `run` is RunOp, or RunCudaOp with its libraries.
  template <typename Run>
  std::vector<TestTensor> InOneOp(const Run& run, const std::vector<bool>& want = {}) const {
    std::vector<size_t> all(inputs.size());
    std::iota(all.begin(), all.end(), 0);
    return run(op, Inputs(all), attributes, want);
  }
  // The same outputs in the same order.
  template <typename Run>
  std::vector<TestTensor> InThree(const Run& run) const {
    std::vector<const TestTensor*> operands = Inputs(of_inputs);
    std::vector<TestTensor> numbers;
    if (scale > 0) {
      numbers = run("dequantize", {&*inputs[0], &*inputs[scale]},
                    {{"dtype", attributes.GetWord("a_dtype")}}, {});
      operands[0] = &numbers[0];
    }
    const std::vector<TestTensor> made = run(of, operands, attributes, {});
    const TestTensor found = run("largest_magnitude", {&made[y]}, {}, {})[0];
    const TestTensor* const sums = acc_sums ? &*inputs[*acc_sums] : nullptr;
    std::vector<TestTensor> all =
        run("quantize", {&made[y], &found, sums, &*inputs[expects]}, attributes, {});
    all.resize(largest());
    all.push_back(found);
    for (const size_t i : more) {
      all.push_back(i == kZeros ? Zeros(made.back().type()) : made[i]);
    }
    return all;
  }

 private:
  static TestTensor Zeros(const graph::TensorType& type) {
    return Values(type.dtype, type.shape, std::vector<double>(type.shape.elements()));
  }
};

// An op that makes y.
struct CodesMaker {
  std::string of;
  std::string approximate = "tanh";  // of GELU
  bool biased = false;               // of layer norms
  bool of_codes = false;             // of activations, whose numbers are bf16 or f16

  // Whether the op takes numbers of one type and makes codes of the other.
  bool Takes(graph::DType from, graph::DType to) const {
    if (IsQuantizedNorm(of) && to != graph::DType::kFloat8E4M3) return false;
    return graph::IsLowPrecision(from) || !(of_codes || IsQuantizedNorm(of));
  }

  // y's rows are those of `shape`; SwiGLU's gradient has twice its columns. Nothing is expected if
  // `magnitude` is 0.
  CodesCall Call(graph::DType from, graph::DType to, const graph::Shape& shape,
                 double magnitude) const {
    CodesCall call;
    call.of = of;
    call.attributes = {{"dtype", std::string(graph::Name(to))}, {"index", int64_t{1}}, {"of", of}};
    IsQuantizedNorm(of) ? AddNorm(call, from, shape) : AddActivation(call, from, shape);
    call.expects = call.inputs.size();
    call.inputs.push_back(Values(graph::DType::kFloat32, {3}, {17, magnitude, 19}));
    if (of_codes) Encode(call, from);
    return call;
  }

 private:
  // Input 0 becomes codes.
  static void Encode(CodesCall& call, graph::DType from) {
    const TestTensor largest = RunOp("largest_magnitude", {&*call.inputs[0]})[0];
    const std::vector<TestTensor> codes =
        RunOp("quantize", {&*call.inputs[0], &largest, nullptr}, {{"dtype", std::string("e4m3")}});
    call.inputs[0] = codes[CodesCall::kCodes];
    call.scale = call.inputs.size();
    call.inputs.push_back(codes[CodesCall::kScale]);
    call.attributes.Set("a_dtype", std::string(graph::Name(from)));
  }

  void AddActivation(CodesCall& call, graph::DType from, const graph::Shape& shape) const {
    const bool gated = of.starts_with("swiglu"), backward = of.ends_with("_backward");
    const int64_t columns = shape.dim(-1);
    call.op = "quantize_activation";
    call.inputs = {NormalValues(from, gated ? shape.WithLast(2 * columns) : shape, 1, 2),
                   std::nullopt};
    call.of_inputs = {0};
    if (backward) {
      call.inputs[1] = NormalValues(from, shape, 2);
      call.of_inputs.push_back(1);
      call.spoils = 1;
    }
    const int64_t made = QuantizedActivationType(of, call.inputs[0]->type()).shape.dim(-1);
    call.inputs.push_back(NormalValues(graph::DType::kFloat32, {made}, 3));
    call.acc_sums = 2;
    if (!gated) call.attributes.Set("approximate", approximate);
  }

  void AddNorm(CodesCall& call, graph::DType from, const graph::Shape& shape) const {
    const bool adds = NormAdds(of), has_mean = NormHasMean(of);
    const graph::Shape row = {shape.dim(-1)};
    call.op = "quantize_norm";
    call.inputs = {NormalValues(from, shape, 1, 2), std::nullopt, NormalValues(from, row, 3),
                   std::nullopt};
    if (adds) call.inputs[1] = NormalValues(from, shape, 2);
    if (biased) call.inputs[3] = NormalValues(from, row, 4);
    call.of_inputs = {0};
    if (adds) call.of_inputs.push_back(1);
    call.of_inputs.push_back(2);
    if (has_mean) call.of_inputs.push_back(3);
    call.y = adds ? 1 : 0;
    call.more = {has_mean ? call.y + 1 : CodesCall::kZeros, call.y + (has_mean ? 2 : 1)};
    if (adds) call.more.push_back(0);
    call.attributes.Set("eps", 1e-5);
  }
};

inline std::vector<CodesMaker> ActivationMakers() {
  std::vector<CodesMaker> makers;
  for (const std::string_view of : kQuantizedActivations) {
    makers.push_back({.of = std::string(of)});
    if (of.starts_with("gelu")) makers.push_back({.of = std::string(of), .approximate = "none"});
  }
  return makers;
}

inline std::vector<CodesMaker> ActivationMakersOfCodes() {
  std::vector<CodesMaker> makers = ActivationMakers();
  for (CodesMaker& maker : makers) maker.of_codes = true;
  return makers;
}

inline std::vector<CodesMaker> NormMakers() {
  std::vector<CodesMaker> makers;
  for (const std::string_view of : kQuantizedNorms) {
    makers.push_back({.of = std::string(of)});
    if (NormHasMean(of)) makers.push_back({.of = std::string(of), .biased = true});
  }
  return makers;
}

inline std::string NameOf(const CodesCall& call) {
  return fmt::format("{} of {}, expected {}", call.of, call.inputs[0]->type().ToString(),
                     call.expected());
}

template <typename Run>
void ExpectBytesOfThree(const Run& run, const CodesCall& call) {
  SCOPED_TRACE(NameOf(call));
  const std::vector<TestTensor> got = call.InOneOp(run), want = call.InThree(run);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(SameBits(got[i], want[i])) << "output " << i;
}

// Expects that outputs don't depend on which others are wanted.
template <typename Run>
void ExpectWhatIsWanted(const Run& run, const CodesCall& call) {
  const std::vector<TestTensor> all = call.InOneOp(run);
  for (unsigned set = 1; set < 1u << all.size(); ++set) {
    SCOPED_TRACE(fmt::format("{}, outputs {:07b}", NameOf(call), set));
    std::vector<bool> want;
    for (size_t i = 0; i < all.size(); ++i) want.push_back((set >> i & 1) != 0);
    const std::vector<TestTensor> some = call.InOneOp(run, want);
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_TRUE(!want[i] || SameBits(some[i], all[i])) << "output " << i;
    }
  }
}

}  // namespace plimsoll::ops
