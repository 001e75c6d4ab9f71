// Ops that make a tensor and its codes at once have the bytes of three ops, on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/ops/codes_call.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Shape;

std::vector<TestTensor> OnCpu(const std::string& op, const std::vector<const TestTensor*>& inputs,
                              const graph::Attributes& attributes, const std::vector<bool>& want) {
  return RunOp(op, inputs, attributes, 2, want);
}

std::vector<CodesMaker> AllMakers() {
  std::vector<CodesMaker> makers = ActivationMakers();
  for (const auto& more : {ActivationMakersOfCodes(), NormMakers()}) {
    makers.insert(makers.end(), more.begin(), more.end());
  }
  return makers;
}

// Magnitudes: none, one that is exceeded, one that is not.
TEST(QuantizeAtOnce, HasTheBytesOfThreeOps) {
  for (const CodesMaker& maker : AllMakers()) {
    for (const DType from : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      for (const DType to : {DType::kFloat8E4M3, DType::kFloat8E5M2}) {
        if (!maker.Takes(from, to)) continue;
        for (const double magnitude : {0.0, 0.25, 64.0}) {
          for (const Shape& shape : {Shape{33, 48}, Shape{2, 7, 13}, Shape{0, 8}}) {
            ExpectBytesOfThree(&OnCpu, maker.Call(from, to, shape, magnitude));
          }
        }
      }
    }
  }
}

TEST(QuantizeAtOnce, HasTheBytesOfThreeOpsOfWhatIsNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const CodesMaker& maker : AllMakers()) {
    for (const double magnitude : {0.0, 4.0}) {
      for (const double bad : {kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
        const bool both = maker.Takes(DType::kBFloat16, DType::kFloat8E5M2);
        const DType to = both ? DType::kFloat8E5M2 : DType::kFloat8E4M3;
        CodesCall call = maker.Call(DType::kBFloat16, to, {33, 48}, magnitude);
        call.Spoil(bad);
        ExpectBytesOfThree(&OnCpu, call);
        EXPECT_TRUE(std::isnan(call.InOneOp(&OnCpu)[CodesCall::kScale].at(0)));
      }
    }
  }
}

TEST(QuantizeAtOnce, MakesWhatIsWanted) {
  for (const CodesMaker& maker : AllMakers()) {
    ExpectWhatIsWanted(&OnCpu, maker.Call(DType::kBFloat16, DType::kFloat8E4M3, {19, 24}, 3));
  }
}

// Expects that the op refuses these inputs, which are followed by what is expected.
void ExpectRefused(const std::string& op, const std::string& of,
                   std::vector<const TestTensor*> inputs, const std::string& why) {
  const TestTensor expected = Values(DType::kFloat32, {1}, {2});
  inputs.push_back(&expected);
  const auto run = [&] {
    RunOp(op, inputs,
          {{"approximate", std::string("tanh")},
           {"dtype", std::string("e4m3")},
           {"eps", 1e-5},
           {"index", int64_t{0}},
           {"of", of}});
  };
  ExpectInternalError(run, {why});
}

TEST(QuantizeAtOnce, RefusesWhatItCannotMake) {
  const TestTensor x = NormalValues(DType::kBFloat16, {4, 8}, 1);
  const TestTensor weight = NormalValues(DType::kBFloat16, {8}, 2);
  const auto activation = [&](const char* of, const TestTensor* dy, const std::string& why) {
    ExpectRefused("quantize_activation", of, {&x, dy, nullptr}, why);
  };
  activation("silu", nullptr, "quantize_activation: makes no codes of 'silu'");
  activation("gelu", &x, "quantize_activation: gradients, and no others, need dy");
  activation("gelu_backward", nullptr, "quantize_activation: gradients, and no others, need dy");
  activation("swiglu_backward", &x, "swiglu_backward: dy must be [...,F]");
  const auto norm = [&](const char* of, const TestTensor* addend, const TestTensor& scales,
                        const TestTensor* bias, const std::string& why) {
    ExpectRefused("quantize_norm", of, {&x, addend, &scales, bias}, why);
  };
  norm("group_norm", nullptr, weight, nullptr, "quantize_norm: makes no codes of 'group_norm'");
  norm("rms_norm", &x, weight, nullptr, "quantize_norm: norms of sums, and no others, add");
  norm("add_rms_norm", nullptr, weight, nullptr,
       "quantize_norm: norms of sums, and no others, add");
  norm("rms_norm", nullptr, weight, &weight, "quantize_norm: RMS norms have no bias");
  norm("add_layer_norm", &x, x, nullptr, "add_layer_norm: weight must be [D]");
  const TestTensor wide = NormalValues(DType::kFloat32, {4, 8}, 1);
  const TestTensor wide_weight = NormalValues(DType::kFloat32, {8}, 2);
  ExpectRefused("quantize_norm", "rms_norm", {&wide, nullptr, &wide_weight, nullptr},
                "quantize_norm: takes bf16 or f16");
}

}  // namespace
}  // namespace plimsoll::ops
