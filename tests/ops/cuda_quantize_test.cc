// Largest magnitudes and 8-bit codes made by a GPU have the bits of those made by the CPU, whatever
// the shape, the type, the contents, and the results that somebody wants.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/float8.h"
#include "ops/linear/quantize.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;
using graph::Shape;

constexpr DType kCodeTypes[] = {DType::kFloat8E4M3, DType::kFloat8E5M2};
constexpr DType kNumberTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr size_t kTransposed = 0, kCodes = 1, kScale = 2, kSums = 3, kOutputs = 4;

Attributes Into(DType dtype) { return {{"dtype", std::string(graph::Name(dtype))}}; }

// Sums are added in another order than on the CPU.
void ExpectSumsNear(const TestTensor& got, const TestTensor& want, const TestTensor& x) {
  const int64_t columns = x.type().shape.dim(-1);
  std::vector<double> magnitudes(static_cast<size_t>(columns));
  for (int64_t i = 0; i < x.size(); ++i) {
    magnitudes[static_cast<size_t>(i % columns)] += std::fabs(x.at(i));
  }
  for (int64_t i = 0; i < columns; ++i) {
    const double most = 1e-5 * magnitudes[static_cast<size_t>(i)];
    if (!std::isfinite(most)) continue;
    ASSERT_NEAR(got.at(i), want.at(i), most) << "column " << i;
  }
}

// A NaN's other bits are the device's.
bool SameNumber(const TestTensor& a, const TestTensor& b) {
  return a.at(0) == b.at(0) || (std::isnan(a.at(0)) && std::isnan(b.at(0)));
}

void ExpectAsOnCpu(gpu::Libraries& libraries, const TestTensor& x, DType dtype) {
  SCOPED_TRACE(x.type().ToString() + " to " + std::string(graph::Name(dtype)));
  const TestTensor largest = RunOp("largest_magnitude", {&x})[0];
  ASSERT_TRUE(SameNumber(RunCudaOp("largest_magnitude", {&x}, libraries)[0], largest));
  const std::vector<TestTensor> cpu = RunOp("quantize", {&x, &largest, nullptr}, Into(dtype));
  const std::vector<TestTensor> cuda =
      RunCudaOp("quantize", {&x, &largest, nullptr}, libraries, Into(dtype));
  ASSERT_TRUE(SameBits(cuda[kCodes], cpu[kCodes]));
  ASSERT_TRUE(SameBits(cuda[kTransposed], cpu[kTransposed]));
  ASSERT_TRUE(SameNumber(cuda[kScale], cpu[kScale]));
  ExpectSumsNear(cuda[kSums], cpu[kSums], x);
}

TEST(CudaQuantize, HasTheBitsOfTheCpu) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const Shape shapes[] = {{1},        {1, 1},      {3, 7},      {16, 16},   {17, 8},     {128, 128},
                          {129, 136}, {131, 173},  {300, 208},  {1, 1600},  {257, 1600}, {5000, 24},
                          {5003, 1},  {2, 33, 48}, {127, 4097}, {1025, 264}};
  for (const Shape& shape : shapes) {
    for (const DType from : kNumberTypes) {
      for (const DType to : kCodeTypes) {
        ExpectAsOnCpu(libraries, NormalValues(from, shape, 1), to);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(CudaQuantize, HasTheBitsOfTheCpuOfWhatIsNotFinite) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType from : kNumberTypes) {
    for (const DType to : kCodeTypes) {
      for (const double bad : {kInfinity, -kInfinity, nan, std::copysign(nan, -1.0)}) {
        for (const Shape& shape : {Shape{130, 136}, Shape{33, 51}}) {
          TestTensor x = NormalValues(from, shape, 1);
          x.set(x.size() - 2, bad);
          ExpectAsOnCpu(libraries, x, to);
          if (HasFatalFailure()) return;
          const TestTensor largest = RunCudaOp("largest_magnitude", {&x}, libraries)[0];
          ASSERT_FALSE(std::isfinite(largest.at(0)));
          const std::vector<TestTensor> got =
              RunCudaOp("quantize", {&x, &largest, nullptr}, libraries, Into(to));
          ASSERT_TRUE(std::isnan(got[kScale].at(0)));
        }
      }
    }
  }
}

TEST(CudaQuantize, HasTheBitsOfTheCpuOfExtremes) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  for (const DType to : kCodeTypes) {
    for (const DType from : kNumberTypes) {
      const TestTensor zeros = Values(from, {4, 8}, std::vector<double>(32));
      ExpectAsOnCpu(libraries, zeros, to);
      TestTensor signs = zeros;
      for (int64_t i = 0; i < signs.size(); i += 2) signs.set(i, -0.0);
      ExpectAsOnCpu(libraries, signs, to);
      ExpectAsOnCpu(libraries, NormalValues(from, {40, 24}, 1, 1e-4), to);
      ExpectAsOnCpu(libraries, NormalValues(from, {40, 24}, 1, 1e4), to);
      // Among them subnormal ones: 0.01 to 1 times the smallest normal number.
      const double least = from == DType::kFloat16 ? 0x1p-14 : 0x1p-126;
      ExpectAsOnCpu(libraries, NormalValues(from, {40, 24}, 1, 0.3 * least), to);
    }
    ExpectAsOnCpu(libraries, Values(DType::kFloat32, {1, 3}, {1e-45, 0, -1e-45}), to);
    ExpectAsOnCpu(libraries, Values(DType::kFloat32, {1, 3}, {3e38, -3.4e38, 1}), to);
  }
}

// Each code, what lies halfway to the next one, the neighbours of both, and what saturates.
std::vector<double> Boundaries(DType dtype) {
  std::vector<float> codes;
  for (int bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<uint8_t>(bits);
    const float value =
        dtype == DType::kFloat8E4M3 ? ToFloat(Float8E4M3{byte}) : ToFloat(Float8E5M2{byte});
    if (std::isfinite(value)) codes.push_back(value);
  }
  std::ranges::sort(codes);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = codes;
  for (size_t i = 1; i < codes.size(); ++i) values.push_back((codes[i - 1] + codes[i]) / 2);
  for (const float beyond : {464.0f, 480.0f, 61440.0f, 65536.0f, 1e30f}) {
    values.push_back(beyond);
    values.push_back(-beyond);
  }
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) {
    values.push_back(std::nextafter(values[i], kInfinity));
    values.push_back(std::nextafter(values[i], -kInfinity));
  }
  values.insert(values.end(), {kInfinity, -kInfinity, std::nanf(""), -std::nanf("")});
  while (values.size() % 8 != 0) values.push_back(1);
  return {values.begin(), values.end()};
}

TEST(CudaQuantize, ConvertsEveryCodeAndWhatLiesBetween) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  for (const DType dtype : kCodeTypes) {
    const std::vector<double> values = Boundaries(dtype);
    // Numbers are their own codes.
    const TestTensor largest = Values(DType::kFloat32, {}, {LargestCode(dtype)});
    const TestTensor x = Values(DType::kFloat32, {static_cast<int64_t>(values.size()), 1}, values);
    // By tiles, and by the kernel for codes alone.
    for (const bool transposed : {true, false}) {
      const std::vector<TestTensor> got = RunCudaOp("quantize", {&x, &largest, nullptr}, libraries,
                                                    Into(dtype), {transposed, true, true, false});
      ASSERT_EQ(got[kScale].at(0), 1);
      for (size_t i = 0; i < values.size(); ++i) {
        const auto value = static_cast<float>(values[i]);
        const uint8_t want = dtype == DType::kFloat8E4M3 ? ToE4M3(value).bits : ToE5M2(value).bits;
        ASSERT_EQ(got[kCodes].as<uint8_t>()[i], want) << fmt::format("{:a}", value);
      }
    }
  }
}

TEST(CudaQuantize, MakesWhatIsWanted) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  for (const Shape& shape : {Shape{300, 208}, Shape{131, 173}, Shape{9, 8}}) {
    const TestTensor x = NormalValues(DType::kBFloat16, shape, 1);
    const TestTensor acc = NormalValues(DType::kFloat32, {shape.dim(-1)}, 2);
    const TestTensor most = Values(DType::kFloat32, {}, {3});
    const auto run = [&](const std::vector<bool>& want) {
      return RunCudaOp("quantize", {&x, &most, &acc}, libraries, Into(DType::kFloat8E4M3), want);
    };
    const std::vector<TestTensor> all = run({});
    for (unsigned set = 1; set < 1u << kOutputs; ++set) {
      SCOPED_TRACE(fmt::format("{} outputs {:04b}", x.type().ToString(), set));
      std::vector<bool> want;
      for (size_t i = 0; i < kOutputs; ++i) want.push_back((set >> i & 1) != 0);
      const std::vector<TestTensor> some = run(want);
      for (size_t i = 0; i < kOutputs; ++i) {
        EXPECT_TRUE(!want[i] || SameBits(some[i], all[i])) << "output " << i;
      }
    }
  }
}

TEST(CudaQuantize, WithoutRowsHasTheScaleOne) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const TestTensor x({DType::kBFloat16, {0, 24}}), acc = NormalValues(DType::kFloat32, {24}, 1);
  const TestTensor largest = RunCudaOp("largest_magnitude", {&x}, libraries)[0];
  EXPECT_EQ(largest.at(0), 0);
  const std::vector<TestTensor> got =
      RunCudaOp("quantize", {&x, &largest, &acc}, libraries, Into(DType::kFloat8E4M3));
  EXPECT_EQ(got[kScale].at(0), 1);
  EXPECT_TRUE(SameBits(got[kSums], acc));
}

TEST(CudaTransposeCodes, HasTheBitsOfQuantize) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const Shape shapes[] = {{1, 1},    {16, 16},    {17, 8},    {128, 128}, {129, 136},  {131, 173},
                          {1, 1600}, {257, 1600}, {5000, 24}, {5003, 1},  {2, 33, 48}, {127, 4097}};
  for (const Shape& shape : shapes) {
    for (const DType to : kCodeTypes) {
      const TestTensor x = NormalValues(DType::kBFloat16, shape, 1);
      const TestTensor largest = RunOp("largest_magnitude", {&x})[0];
      const std::vector<TestTensor> q = RunOp("quantize", {&x, &largest, nullptr}, Into(to));
      const TestTensor transposed = RunCudaOp("transpose_codes", {&q[kCodes]}, libraries)[0];
      EXPECT_TRUE(SameBits(transposed, q[kTransposed])) << q[kCodes].type().ToString();
    }
  }
}

// In any thread and any word of a pack.
TEST(CudaLargestMagnitude, IsFoundAnywhere) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  constexpr int64_t kCount = 3 * 70001;
  for (const DType from : kNumberTypes) {
    TestTensor x = NormalValues(from, {3, kCount / 3}, 1);
    for (const int64_t at : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{8},
                             int64_t{1023}, kCount / 2, kCount - 4, kCount - 2, kCount - 1}) {
      const double before = x.at(at);
      x.set(at, -448);
      EXPECT_EQ(RunCudaOp("largest_magnitude", {&x}, libraries)[0].at(0), 448)
          << graph::Name(from) << " at " << at;
      x.set(at, before);
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
