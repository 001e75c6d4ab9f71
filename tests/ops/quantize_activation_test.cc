// Codes of activations have the bytes of those made in three steps, on the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/ops/activation_codes.h"
#include "tests/ops/expect_tensor.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

std::vector<TestTensor> OnCpu(const std::string& op, const std::vector<const TestTensor*>& inputs,
                              const graph::Attributes& attributes, const std::vector<bool>& want) {
  return RunOp(op, inputs, attributes, 2, want);
}

void ExpectSame(const ActivationCodes& call) {
  SCOPED_TRACE(
      fmt::format("{} of {}, expected {}", call.of, call.a.type().ToString(), call.expected.at(1)));
  ExpectSameBits(call.InOneOp(OnCpu), call.InThree(OnCpu));
}

// Magnitudes: none, one that is exceeded, one that is not.
TEST(QuantizeActivation, HasTheBytesOfThreeOps) {
  ForEachActivation([](const std::string& of, const char* approximate) {
    for (const DType from : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      for (const DType to : {DType::kFloat8E4M3, DType::kFloat8E5M2}) {
        for (const double magnitude : {0.0, 0.25, 64.0}) {
          for (const graph::Shape& half :
               {graph::Shape{33, 48}, graph::Shape{2, 7, 13}, graph::Shape{0, 8}}) {
            ExpectSame({of, approximate, from, to, half, magnitude});
          }
        }
      }
    }
  });
}

TEST(QuantizeActivation, HasTheBytesOfThreeOpsOfWhatIsNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ForEachActivation([&](const std::string& of, const char* approximate) {
    for (const double magnitude : {0.0, 4.0}) {
      for (const double bad : {kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
        ActivationCodes call(of, approximate, DType::kBFloat16, DType::kFloat8E5M2, {33, 48},
                             magnitude);
        const TestTensor& operand = call.backward() ? call.dy : call.a;
        TestTensor(operand).set(operand.size() - 2, bad);  // a copy has the same memory
        ExpectSame(call);
        EXPECT_TRUE(std::isnan(call.InOneOp(OnCpu)[ActivationCodes::kScale].at(0)));
      }
    }
  });
}

TEST(QuantizeActivation, RefusesWhatItCannotMake) {
  const TestTensor x = NormalValues(DType::kBFloat16, {4, 8}, 1);
  const TestTensor expected = Values(DType::kFloat32, {1}, {2});
  const auto expect = [&](const std::string& of, const TestTensor* dy, const std::string& why) {
    const auto run = [&] {
      RunOp("quantize_activation", {&x, dy, nullptr, &expected},
            {{"approximate", std::string("tanh")},
             {"dtype", std::string("e4m3")},
             {"index", int64_t{0}},
             {"of", of}});
    };
    ExpectInternalError(run, {why});
  };
  expect("silu", nullptr, "quantize_activation: makes no codes of 'silu'");
  expect("gelu", &x, "quantize_activation: gradients, and no others, need dy");
  expect("gelu_backward", nullptr, "quantize_activation: gradients, and no others, need dy");
  expect("swiglu_backward", &x, "swiglu_backward: dy must be [...,F]");
}

}  // namespace
}  // namespace plimsoll::ops
