// Codes of activations that a GPU makes in one op have the bytes of those that it makes in three.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/ops/activation_codes.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Shape;

constexpr DType kCodeTypes[] = {DType::kFloat8E4M3, DType::kFloat8E5M2};
constexpr DType kNumberTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

// Runs ops on the GPU.
class OnCuda {
 public:
  std::vector<TestTensor> operator()(const std::string& op,
                                     const std::vector<const TestTensor*>& inputs,
                                     const graph::Attributes& attributes,
                                     const std::vector<bool>& want) const {
    return RunCudaOp(op, inputs, libraries_, attributes, want);
  }

 private:
  mutable gpu::Libraries libraries_;
};

std::string NameOf(const ActivationCodes& call) {
  return fmt::format("{} of {}, expected {}", call.of, call.a.type().ToString(),
                     call.expected.at(1));
}

void ExpectSame(const OnCuda& run, const ActivationCodes& call) {
  SCOPED_TRACE(NameOf(call));
  const std::vector<TestTensor> got = call.InOneOp(run), want = call.InThree(run);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(SameBits(got[i], want[i])) << "output " << i;
}

// Columns that fill no pack, tiles that are cut, halves that end within a tile, rows that need
// padding; magnitudes: none, one that is exceeded, one that is not.
TEST(CudaQuantizeActivation, HasTheBytesOfThreeOps) {
  PLIMSOLL_NEEDS_CUDA
  const OnCuda run;
  const Shape halves[] = {{1, 1},     {3, 7},      {16, 16},   {1, 8},     {33, 48},    {37, 172},
                          {130, 136}, {131, 173},  {128, 128}, {257, 264}, {300, 1600}, {2, 33, 48},
                          {1025, 24}, {700, 1032}, {5003, 4},  {0, 24}};
  ForEachActivation([&](const std::string& of, const char* approximate) {
    for (const DType from : kNumberTypes) {
      for (const DType to : kCodeTypes) {
        for (const double magnitude : {0.0, 0.25, 64.0}) {
          for (const Shape& half : halves) {
            ExpectSame(run, {of, approximate, from, to, half, magnitude});
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

// Tiles for every multiprocessor, and more.
TEST(CudaQuantizeActivation, HasTheBytesOfThreeOpsOfALargeTensor) {
  PLIMSOLL_NEEDS_CUDA
  const OnCuda run;
  ForEachActivation([&](const std::string& of, const char* approximate) {
    for (const double magnitude : {0.0, 3.0}) {
      ExpectSame(run,
                 {of, approximate, DType::kBFloat16, DType::kFloat8E5M2, {4096, 776}, magnitude});
    }
  });
}

// A NaN's other bits are the device's.
bool SameNumber(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// In each tile of several. What is expected of the tensor is not known to be wrong when its first
// codes are written: they keep their factor, but not their scale.
TEST(CudaQuantizeActivation, HasTheScaleOfWhatIsNotFinite) {
  PLIMSOLL_NEEDS_CUDA
  const OnCuda run;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto expect = [&](const ActivationCodes& call) {
    SCOPED_TRACE(NameOf(call));
    const std::vector<TestTensor> got = call.InOneOp(run), want = call.InThree(run);
    ASSERT_FALSE(std::isfinite(got[ActivationCodes::kLargest].at(0)));
    ASSERT_TRUE(
        SameNumber(got[ActivationCodes::kLargest].at(0), want[ActivationCodes::kLargest].at(0)));
    ASSERT_TRUE(std::isnan(got[ActivationCodes::kScale].at(0)));
    ASSERT_TRUE(SameBits(got[ActivationCodes::kScale], want[ActivationCodes::kScale]));
    for (int64_t i = 0; i < got[ActivationCodes::kSums].size(); ++i) {
      ASSERT_TRUE(SameNumber(got[ActivationCodes::kSums].at(i), want[ActivationCodes::kSums].at(i)))
          << "column " << i;
    }
    if (call.expected.at(1) != 0) return;
    ASSERT_TRUE(SameBits(got[ActivationCodes::kCodes], want[ActivationCodes::kCodes]));
    ASSERT_TRUE(SameBits(got[ActivationCodes::kTransposed], want[ActivationCodes::kTransposed]));
  };
  ForEachActivation([&](const std::string& of, const char* approximate) {
    for (const DType from : kNumberTypes) {
      for (const double magnitude : {0.0, 4.0}) {
        for (const double bad : {kInfinity, -kInfinity, nan}) {
          for (const Shape& half : {Shape{130, 136}, Shape{33, 51}}) {
            const ActivationCodes call(of, approximate, from, DType::kFloat8E4M3, half, magnitude);
            TestTensor operand = call.backward() ? call.dy : call.a;  // the same memory
            // An activation may make 0 of minus infinity; not so of up, which is last.
            if (bad < 0 && of == "gelu") continue;
            operand.set(operand.size() - 2, bad);
            expect(call);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

TEST(CudaQuantizeActivation, MakesWhatIsWanted) {
  PLIMSOLL_NEEDS_CUDA
  const OnCuda run;
  for (const char* const of : {"gelu", "swiglu_backward"}) {
    for (const double magnitude : {0.0, 3.0}) {
      for (const Shape& half : {Shape{300, 208}, Shape{131, 173}}) {
        const ActivationCodes call(of, "tanh", DType::kBFloat16, DType::kFloat8E4M3, half,
                                   magnitude);
        const std::vector<TestTensor> all = call.InOneOp(run);
        for (unsigned set = 1; set < 1u << ActivationCodes::kOutputs; ++set) {
          SCOPED_TRACE(fmt::format("{}, outputs {:05b}", NameOf(call), set));
          std::vector<bool> want;
          for (size_t i = 0; i < ActivationCodes::kOutputs; ++i)
            want.push_back((set >> i & 1) != 0);
          const std::vector<TestTensor> some = call.InOneOp(run, want);
          for (size_t i = 0; i < ActivationCodes::kOutputs; ++i) {
            EXPECT_TRUE(!want[i] || SameBits(some[i], all[i])) << "output " << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
