// Ops that make a tensor and its codes at once have the bytes of three ops, on a GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/ops/codes_call.h"
#include "tests/ops/cuda_op_runner.h"
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

// Magnitudes: none, one that is exceeded, one that is not.
void ExpectBytesOfEach(const std::vector<CodesMaker>& makers, const std::vector<Shape>& shapes) {
  const OnCuda run;
  for (const CodesMaker& maker : makers) {
    for (const DType from : kNumberTypes) {
      for (const DType to : kCodeTypes) {
        if (!maker.Takes(from, to)) continue;
        for (const double magnitude : {0.0, 0.25, 64.0}) {
          for (const Shape& shape : shapes) {
            ExpectBytesOfThree(run, maker.Call(from, to, shape, magnitude));
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

void ExpectBytesOfLarge(const std::vector<CodesMaker>& makers, DType to,
                        const std::vector<Shape>& shapes) {
  const OnCuda run;
  for (const CodesMaker& maker : makers) {
    for (const double magnitude : {0.0, 3.0}) {
      for (const Shape& shape : shapes) {
        ExpectBytesOfThree(run, maker.Call(DType::kBFloat16, to, shape, magnitude));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// A NaN's other bits are the device's.
bool SameNumber(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// What is expected of the tensor is not known to be wrong when its first codes are written: they
// keep their factor, but not their scale.
void ExpectScaleOfNotFinite(const OnCuda& run, const CodesCall& call) {
  SCOPED_TRACE(NameOf(call));
  const std::vector<TestTensor> got = call.InOneOp(run), want = call.InThree(run);
  ASSERT_FALSE(std::isfinite(got[call.largest()].at(0)));
  ASSERT_TRUE(std::isnan(got[CodesCall::kScale].at(0)));
  ASSERT_TRUE(SameBits(got[CodesCall::kScale], want[CodesCall::kScale]));
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = CodesCall::kScale + 1; k < got.size(); ++k) {
    for (int64_t i = 0; i < got[k].size(); ++i) {
      ASSERT_TRUE(SameNumber(got[k].at(i), want[k].at(i))) << k << ", element " << i;
    }
  }
  if (call.expected() != 0) return;
  ASSERT_TRUE(SameBits(got[CodesCall::kCodes], want[CodesCall::kCodes]));
  ASSERT_TRUE(SameBits(got[CodesCall::kTransposed], want[CodesCall::kTransposed]));
}

void ExpectScalesOfNotFinite(const std::vector<CodesMaker>& makers,
                             const std::vector<Shape>& shapes) {
  const OnCuda run;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const CodesMaker& maker : makers) {
    for (const DType from : kNumberTypes) {
      if (!maker.Takes(from, DType::kFloat8E4M3)) continue;
      for (const double magnitude : {0.0, 4.0}) {
        for (const double bad : {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
          // It may make 0 of minus infinity; not so SwiGLU of up, which is last.
          if (bad < 0 && maker.of == "gelu") continue;
          for (const Shape& shape : shapes) {
            CodesCall call = maker.Call(from, DType::kFloat8E4M3, shape, magnitude);
            call.Spoil(bad);
            ExpectScaleOfNotFinite(run, call);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

void ExpectWantedOfEach(const std::vector<CodesMaker>& makers, const std::vector<Shape>& shapes) {
  const OnCuda run;
  for (const CodesMaker& maker : makers) {
    for (const double magnitude : {0.0, 3.0}) {
      for (const Shape& shape : shapes) {
        ExpectWhatIsWanted(run, maker.Call(DType::kBFloat16, DType::kFloat8E4M3, shape, magnitude));
      }
    }
  }
}

// Columns that fill no pack, tiles that are cut, halves that end within a tile, rows that need
// padding.
TEST(CudaQuantizeActivation, HasTheBytesOfThreeOps) {
  PLIMSOLL_NEEDS_CUDA
  ExpectBytesOfEach(ActivationMakers(), {{1, 1},
                                         {3, 7},
                                         {16, 16},
                                         {1, 8},
                                         {33, 48},
                                         {37, 172},
                                         {130, 136},
                                         {131, 173},
                                         {128, 128},
                                         {257, 264},
                                         {300, 1600},
                                         {2, 33, 48},
                                         {1025, 24},
                                         {700, 1032},
                                         {5003, 4},
                                         {0, 24}});
}

// Tiles for every multiprocessor, and more.
TEST(CudaQuantizeActivation, HasTheBytesOfThreeOpsOfALargeTensor) {
  PLIMSOLL_NEEDS_CUDA
  ExpectBytesOfLarge(ActivationMakers(), DType::kFloat8E5M2, {{4096, 776}});
}

// In each tile of several.
TEST(CudaQuantizeActivation, HasTheScaleOfWhatIsNotFinite) {
  PLIMSOLL_NEEDS_CUDA
  ExpectScalesOfNotFinite(ActivationMakers(), {{130, 136}, {33, 51}});
}

TEST(CudaQuantizeActivation, MakesWhatIsWanted) {
  PLIMSOLL_NEEDS_CUDA
  ExpectWantedOfEach({{.of = "gelu"}, {.of = "swiglu_backward"}}, {{300, 208}, {131, 173}});
}

TEST(CudaQuantizeActivation, OfCodesHasTheBytesOfFourOps) {
  PLIMSOLL_NEEDS_CUDA
  ExpectBytesOfEach(ActivationMakersOfCodes(), {{1, 1},
                                                {3, 7},
                                                {33, 48},
                                                {37, 172},
                                                {131, 173},
                                                {257, 264},
                                                {300, 1600},
                                                {2, 33, 48},
                                                {5003, 4},
                                                {0, 24}});
  ExpectBytesOfLarge(ActivationMakersOfCodes(), DType::kFloat8E4M3, {{4096, 776}});
  ExpectScalesOfNotFinite(ActivationMakersOfCodes(), {{130, 136}, {33, 51}});
}

// Columns that fill no pack, tiles that are cut, rows of a warp and of a block, rows that are read
// once or several times, rows that need padding.
TEST(CudaQuantizeNorm, HasTheBytesOfThreeOps) {
  PLIMSOLL_NEEDS_CUDA
  ExpectBytesOfEach(NormMakers(), {{1, 1},
                                   {3, 7},
                                   {16, 16},
                                   {1, 8},
                                   {33, 48},
                                   {37, 516},
                                   {64, 520},
                                   {31, 1536},
                                   {129, 512},
                                   {100, 1600},
                                   {2, 33, 48},
                                   {1025, 24},
                                   {70, 2048},
                                   {65, 2056},
                                   {45, 3584},
                                   {35, 4100},
                                   {35, 3583},
                                   {5003, 4},
                                   {0, 24}});
}

// Blocks for every multiprocessor, and more; the widest rows that are packs, and wider ones.
TEST(CudaQuantizeNorm, HasTheBytesOfThreeOpsOfALargeTensor) {
  PLIMSOLL_NEEDS_CUDA
  ExpectBytesOfLarge(NormMakers(), DType::kFloat8E4M3, {{10000, 776}, {70, 16384}, {40, 16392}});
}

// What is added may be overwritten by the sum, in the first step, too.
TEST(CudaQuantizeNorm, AddsInPlace) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const OnCuda run;
  for (const CodesMaker& maker :
       {CodesMaker{.of = "add_rms_norm"}, CodesMaker{.of = "add_layer_norm", .biased = true}}) {
    for (const double magnitude : {0.0, 3.0}) {
      for (const Shape& shape : {Shape{300, 208}, Shape{131, 173}, Shape{67, 2304}}) {
        const CodesCall call = maker.Call(DType::kBFloat16, DType::kFloat8E4M3, shape, magnitude);
        SCOPED_TRACE(NameOf(call));
        const std::vector<TestTensor> want = call.InOneOp(run);
        for (const size_t over : {quantize_norm::kX, quantize_norm::kAddend}) {
          std::vector<std::optional<CudaTensor>> copies;
          std::vector<const CudaTensor*> inputs;
          for (const auto& input : call.inputs) {
            copies.push_back(input ? std::optional<CudaTensor>(*input) : std::nullopt);
          }
          for (const auto& copy : copies) inputs.push_back(copy ? &*copy : nullptr);
          CudaOpRunner runner(call.op, inputs, call.attributes);
          runner.Share(quantize_norm::kSum, *inputs[over]);
          runner.Run(libraries);
          for (size_t i = 0; i < want.size(); ++i) {
            ASSERT_TRUE(SameBits(runner.output(i).Download(), want[i])) << "output " << i;
          }
        }
      }
    }
  }
}

TEST(CudaQuantizeNorm, HasTheScaleOfWhatIsNotFinite) {
  PLIMSOLL_NEEDS_CUDA
  ExpectScalesOfNotFinite(NormMakers(), {{130, 136}, {33, 51}, {35, 2304}});
}

TEST(CudaQuantizeNorm, MakesWhatIsWanted) {
  PLIMSOLL_NEEDS_CUDA
  ExpectWantedOfEach({{.of = "rms_norm"}, {.of = "add_layer_norm", .biased = true}},
                     {{300, 208}, {131, 173}, {67, 2304}});
}

}  // namespace
}  // namespace plimsoll::ops
