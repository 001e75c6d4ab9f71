// Codes of norms that a GPU makes in one op have the bytes of those that it makes in three.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/norm_codes.h"
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

std::string NameOf(const NormCodes& call) {
  return fmt::format("{} of {}, expected {}", call.of, call.x.type().ToString(),
                     call.expected.at(1));
}

void ExpectSame(const OnCuda& run, const NormCodes& call) {
  SCOPED_TRACE(NameOf(call));
  const std::vector<TestTensor> got = call.InOneOp(run), want = call.InThree(run);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(SameBits(got[i], want[i])) << "output " << i;
}

// Columns that fill no pack, tiles that are cut, rows of a warp and of a block, rows that are read
// once or several times, rows that need padding; magnitudes: none, one that is exceeded, one that
// is not.
TEST(CudaQuantizeNorm, HasTheBytesOfThreeOps) {
  PLIMSOLL_NEEDS_CUDA
  const OnCuda run;
  const Shape shapes[] = {{1, 1},      {3, 7},     {16, 16},   {1, 8},     {33, 48},
                          {37, 516},   {64, 520},  {31, 1536}, {129, 512}, {100, 1600},
                          {2, 33, 48}, {1025, 24}, {70, 2048}, {65, 2056}, {45, 3584},
                          {35, 4100},  {35, 3583}, {5003, 4},  {0, 24}};
  ForEachNorm([&](const std::string& of, bool with_bias) {
    for (const DType from : kNumberTypes) {
      for (const DType to : kCodeTypes) {
        for (const double magnitude : {0.0, 0.25, 64.0}) {
          for (const Shape& shape : shapes) {
            ExpectSame(run, {of, with_bias, from, to, shape, magnitude});
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

// Blocks for every multiprocessor, and more; the widest rows that are packs, and wider ones.
TEST(CudaQuantizeNorm, HasTheBytesOfThreeOpsOfALargeTensor) {
  PLIMSOLL_NEEDS_CUDA
  const OnCuda run;
  ForEachNorm([&](const std::string& of, bool with_bias) {
    for (const double magnitude : {0.0, 3.0}) {
      for (const Shape& shape : {Shape{10000, 776}, Shape{70, 16384}, Shape{40, 16392}}) {
        ExpectSame(run, {of, with_bias, DType::kBFloat16, DType::kFloat8E4M3, shape, magnitude});
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

// What is added may be overwritten by the sum, in the first step, too.
TEST(CudaQuantizeNorm, AddsInPlace) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const OnCuda run;
  for (const char* const of : {"add_rms_norm", "add_layer_norm"}) {
    for (const double magnitude : {0.0, 3.0}) {
      for (const Shape& shape : {Shape{300, 208}, Shape{131, 173}, Shape{67, 2304}}) {
        for (const bool over_addend : {false, true}) {
          const NormCodes call(of, true, DType::kBFloat16, DType::kFloat8E4M3, shape, magnitude);
          SCOPED_TRACE(NameOf(call));
          const CudaTensor x(call.x), addend(call.addend), weight(call.weight), bias(call.bias),
              expected(call.expected);
          CudaOpRunner runner("quantize_norm",
                              {&x, &addend, &weight, call.biased ? &bias : nullptr, &expected},
                              call.attributes);
          runner.Share(quantize_norm::kSum, over_addend ? addend : x);
          runner.Run(libraries);
          const std::vector<TestTensor> want = call.InOneOp(run);
          for (size_t i = 0; i < want.size(); ++i) {
            ASSERT_TRUE(SameBits(runner.output(i).Download(), want[i])) << "output " << i;
          }
        }
      }
    }
  }
}

// A NaN's other bits are the device's.
bool SameNumber(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// What is expected of the tensor is not known to be wrong when its first codes are written: they
// keep their factor, but not their scale.
TEST(CudaQuantizeNorm, HasTheScaleOfWhatIsNotFinite) {
  PLIMSOLL_NEEDS_CUDA
  using namespace quantize_norm;
  const OnCuda run;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ForEachNorm([&](const std::string& of, bool with_bias) {
    for (const DType from : kNumberTypes) {
      for (const double magnitude : {0.0, 4.0}) {
        for (const double bad : {kInfinity, -kInfinity, nan}) {
          for (const Shape& shape : {Shape{130, 136}, Shape{33, 51}, Shape{35, 2304}}) {
            const NormCodes call(of, with_bias, from, DType::kFloat8E4M3, shape, magnitude);
            SCOPED_TRACE(NameOf(call));
            TestTensor(call.x).set(call.x.size() - 2, bad);  // a copy has the same memory
            const std::vector<TestTensor> got = call.InOneOp(run), want = call.InThree(run);
            ASSERT_FALSE(std::isfinite(got[kLargest].at(0)));
            ASSERT_TRUE(SameNumber(got[kLargest].at(0), want[kLargest].at(0)));
            ASSERT_TRUE(std::isnan(got[kScale].at(0)));
            ASSERT_TRUE(SameBits(got[kScale], want[kScale]));
            for (size_t k = kMean; k < got.size(); ++k) {
              for (int64_t i = 0; i < got[k].size(); ++i) {
                ASSERT_TRUE(SameNumber(got[k].at(i), want[k].at(i))) << k << ", element " << i;
              }
            }
            if (magnitude != 0) continue;
            ASSERT_TRUE(SameBits(got[kCodes], want[kCodes]));
            ASSERT_TRUE(SameBits(got[kTransposed], want[kTransposed]));
          }
        }
      }
    }
  });
}

TEST(CudaQuantizeNorm, MakesWhatIsWanted) {
  PLIMSOLL_NEEDS_CUDA
  const OnCuda run;
  for (const char* const of : {"rms_norm", "add_layer_norm"}) {
    for (const double magnitude : {0.0, 3.0}) {
      for (const Shape& shape : {Shape{300, 208}, Shape{131, 173}, Shape{67, 2304}}) {
        const NormCodes call(of, true, DType::kBFloat16, DType::kFloat8E4M3, shape, magnitude);
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
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
