// Batch norms with a residual on the GPU beyond the registry test: the bits that say where the
// result is positive, and the gradient that reads them, by kernels of whole packs and of single
// channels.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ops/norms/positive_bits.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Shape;

struct Size {
  int64_t samples, pixels, channels, groups;
};

// Rows in all forms that kernels divide them in; 12, 36 and 100 channels are packs of floats whose
// last byte is not full, 3 and 33 are no packs.
const std::vector<Size> kSizes = {
    {2, 700, 64, 1}, {4, 130, 256, 2}, {3, 77, 2048, 1}, {2, 61, 24, 2}, {2, 90, 12, 1},
    {2, 90, 36, 1},  {2, 90, 100, 1},  {3, 50, 33, 3},   {5, 40, 3, 1},  {1, 1, 8, 1}};
constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

TestTensor Positive(const Shape& shape, int seed) {
  TestTensor tensor = NormalValues(DType::kFloat32, shape, seed);
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, 0.5 + std::abs(tensor.at(i)));
  return tensor;
}

// Runs the op with all tensors that number of bytes beyond an aligned address.
std::vector<TestTensor> RunAt(const std::string& op, const std::vector<const TestTensor*>& inputs,
                              graph::Attributes attributes, const std::vector<bool>& want,
                              int64_t offset) {
  static auto* libraries = new gpu::Libraries;  // never destroyed: the driver may go first
  std::vector<CudaTensor> copies;
  copies.reserve(inputs.size());
  std::vector<const CudaTensor*> arguments;
  for (const TestTensor* input : inputs) {
    if (input != nullptr) copies.emplace_back(*input, offset);
    arguments.push_back(input != nullptr ? &copies.back() : nullptr);
  }
  CudaOpRunner runner(op, arguments, std::move(attributes), want);
  std::vector<TestTensor> outputs;
  for (size_t i = 0; i < runner.outputs(); ++i) {
    if (i >= want.size() || want[i]) runner.Share(i, CudaTensor(runner.output(i).type(), offset));
  }
  runner.Run(*libraries);
  for (size_t i = 0; i < runner.outputs(); ++i) {
    if (i >= want.size() || want[i]) outputs.push_back(runner.output(i).Download());
  }
  return outputs;
}

void ExpectBitsOf(const TestTensor& bits, const TestTensor& y) {
  const int64_t channels = y.type().shape.dim(-1), bytes = PositiveBytes(channels);
  ASSERT_EQ(bits.type(), PositiveBits(y.type().shape));
  for (int64_t i = 0; i < y.type().shape.rows() * bytes * 8; ++i) {
    const int64_t row = i / (bytes * 8), channel = i % (bytes * 8);
    const bool positive = channel < channels && !(y.at(row * channels + channel) <= 0);
    ASSERT_EQ(bits.as<uint8_t>()[i / 8] >> i % 8 & 1, positive ? 1 : 0)
        << "row " << row << " channel " << channel;
  }
}

TEST(CudaBatchNorm, BitsSayWhereTheResultIsPositive) {
  PLIMSOLL_NEEDS_CUDA
  for (const Size& size : kSizes) {
    for (const DType dtype : kTypes) {
      for (const int64_t offset : {0, 4}) {
        const Shape shape{size.samples, size.pixels, size.channels};
        SCOPED_TRACE(std::string(graph::Name(dtype)) + shape.ToString());
        const Shape statistic{size.groups, size.channels};
        const TestTensor x = NormalValues(dtype, shape, 1),
                         residual = NormalValues(dtype, shape, 2),
                         mean = NormalValues(DType::kFloat32, statistic, 3, 0.1),
                         variance = Positive(statistic, 4),
                         weight = NormalValues(DType::kFloat32, {size.channels}, 5),
                         bias = NormalValues(DType::kFloat32, {size.channels}, 6);
        const std::vector<const TestTensor*> inputs = {&x,      &mean, &variance,
                                                       &weight, &bias, &residual};
        for (const bool relu : {true, false}) {
          const graph::Attributes attributes = {{"eps", 1e-5}, {"relu", relu}};
          const auto both = RunAt("batch_norm", inputs, attributes, {true, true}, offset);
          ExpectSameBits(RunAt("batch_norm", inputs, attributes, {true, false}, offset)[0],
                         both[0]);
          ExpectBitsOf(both[1], both[0]);
          if (!relu) continue;

          // The ReLU's gradient, then the norm's.
          const TestTensor dy = NormalValues(dtype, shape, 7);
          const graph::Attributes eps = {{"eps", 1e-5}};
          const TestTensor masked = RunAt("relu_backward", {&both[0], &dy}, {}, {true}, offset)[0];
          std::vector<TestTensor> want =
              RunAt("batch_norm_backward",
                    {&masked, &x, &mean, &variance, &weight, nullptr, nullptr, nullptr},
                    {{"eps", 1e-5}, {"through_statistics", true}}, {true, false, false, true, true},
                    offset);
          want.insert(want.begin(), masked);
          ExpectSameBits(
              RunAt("batch_norm_residual_backward",
                    {&dy, &both[1], &x, &mean, &variance, &weight, nullptr, nullptr, nullptr}, eps,
                    {true, true, true, true}, offset),
              want);
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
