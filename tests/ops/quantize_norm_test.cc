// Codes of norms have the bytes of those made in three steps, on the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/ops/expect_tensor.h"
#include "tests/ops/norm_codes.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Shape;

std::vector<TestTensor> OnCpu(const std::string& op, const std::vector<const TestTensor*>& inputs,
                              const graph::Attributes& attributes, const std::vector<bool>& want) {
  return RunOp(op, inputs, attributes, 2, want);
}

void ExpectSame(const NormCodes& call) {
  SCOPED_TRACE(
      fmt::format("{} of {}, expected {}", call.of, call.x.type().ToString(), call.expected.at(1)));
  ExpectSameBits(call.InOneOp(OnCpu), call.InThree(OnCpu));
}

// Magnitudes: none, one that is exceeded, one that is not.
TEST(QuantizeNorm, HasTheBytesOfThreeOps) {
  ForEachNorm([](const std::string& of, bool with_bias) {
    for (const DType from : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      for (const DType to : {DType::kFloat8E4M3, DType::kFloat8E5M2}) {
        for (const double magnitude : {0.0, 0.25, 64.0}) {
          for (const Shape& shape : {Shape{33, 48}, Shape{2, 7, 13}, Shape{0, 8}}) {
            ExpectSame({of, with_bias, from, to, shape, magnitude});
          }
        }
      }
    }
  });
}

TEST(QuantizeNorm, HasTheBytesOfThreeOpsOfWhatIsNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ForEachNorm([&](const std::string& of, bool with_bias) {
    for (const double magnitude : {0.0, 4.0}) {
      for (const double bad : {kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
        const NormCodes call(of, with_bias, DType::kBFloat16, DType::kFloat8E4M3, {33, 48},
                             magnitude);
        TestTensor(call.x).set(call.x.size() - 2, bad);  // a copy has the same memory
        ExpectSame(call);
        EXPECT_TRUE(std::isnan(call.InOneOp(OnCpu)[quantize_norm::kScale].at(0)));
      }
    }
  });
}

TEST(QuantizeNorm, MakesWhatIsWanted) {
  for (const char* const of : {"rms_norm", "add_layer_norm"}) {
    const NormCodes call(of, true, DType::kBFloat16, DType::kFloat8E4M3, {19, 24}, 3);
    const std::vector<TestTensor> all = call.InOneOp(OnCpu);
    for (unsigned set = 1; set < 1u << all.size(); ++set) {
      SCOPED_TRACE(fmt::format("{}, outputs {:07b}", of, set));
      std::vector<bool> want;
      for (size_t i = 0; i < all.size(); ++i) want.push_back((set >> i & 1) != 0);
      const std::vector<TestTensor> some = call.InOneOp(OnCpu, want);
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_TRUE(!want[i] || SameBits(some[i], all[i])) << "output " << i;
      }
    }
  }
}

TEST(QuantizeNorm, RefusesWhatItCannotMake) {
  const TestTensor x = NormalValues(DType::kBFloat16, {4, 8}, 1);
  const TestTensor weight = NormalValues(DType::kBFloat16, {8}, 2);
  const TestTensor expected = Values(DType::kFloat32, {1}, {2});
  const auto expect = [&](const std::string& of, const TestTensor* addend, const TestTensor& scales,
                          const TestTensor* bias, const std::string& why) {
    const auto run = [&] {
      RunOp("quantize_norm", {&x, addend, &scales, bias, &expected},
            {{"dtype", std::string("e4m3")}, {"eps", 1e-5}, {"index", int64_t{0}}, {"of", of}});
    };
    ExpectInternalError(run, {why});
  };
  expect("group_norm", nullptr, weight, nullptr, "quantize_norm: makes no codes of 'group_norm'");
  expect("rms_norm", &x, weight, nullptr, "quantize_norm: norms of sums, and no others, add");
  expect("add_rms_norm", nullptr, weight, nullptr,
         "quantize_norm: norms of sums, and no others, add");
  expect("rms_norm", nullptr, weight, &weight, "quantize_norm: RMS norms have no bias");
  expect("add_layer_norm", &x, x, nullptr, "add_layer_norm: weight must be [D]");
}

}  // namespace
}  // namespace plimsoll::ops
