// Binary cross-entropy and spectral normalization on the GPU, at their largest.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/ops/cuda_op_runner.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

TEST(CudaBinaryCrossEntropy, AgreesWithTheCpuOnManyLogits) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const graph::Attributes target = {{"target", 0.9}};
  const TestTensor weight = Values(DType::kFloat32, {}, {0.5});
  // More chunks than the block has threads that adds them.
  const TestTensor logits = NormalValues(DType::kFloat16, {1025, 32769}, 1, 2);
  const char* const op = "binary_cross_entropy_with_logits";
  const auto cpu = RunOp(op, {&logits, &weight}, target);
  const auto cuda = RunCudaOp(op, {&logits, &weight}, libraries, target);
  EXPECT_NEAR(cuda[0].at(0), cpu[0].at(0), 1e-5 * cpu[0].at(0));
  EXPECT_EQ(cuda[1].at(0), cpu[1].at(0));
}

TEST(CudaSpectralNorm, AgreesWithTheCpuOnALargeWeight) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const TestTensor weight = NormalValues(DType::kFloat32, {1024, 4, 4, 1024}, 1, 0.02);
  const TestTensor start = NormalValues(DType::kFloat32, {4, 4, 1024}, 2);
  const auto expect = [](const TestTensor& got, const TestTensor& want, double tolerance) {
    for (int64_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got.at(i), want.at(i), tolerance) << i;
  };
  const auto vectors = RunOp("power_iteration", {&weight, &start});
  const auto on_gpu = RunCudaOp("power_iteration", {&weight, &start}, libraries);
  for (size_t i = 0; i < 2; ++i) expect(on_gpu[i], vectors[i], 1e-6);
  std::vector<const TestTensor*> arguments = {&weight, &vectors[0], &vectors[1]};
  const auto norm = RunOp("spectral_norm", arguments);
  const auto norm_on_gpu = RunCudaOp("spectral_norm", arguments, libraries);
  expect(norm_on_gpu[0], norm[0], 1e-6);
  expect(norm_on_gpu[1], norm[1], 1e-5 * std::abs(norm[1].at(0)));
  const TestTensor dy = NormalValues(DType::kFloat32, {1024, 4, 4, 1024}, 3);
  arguments.insert(arguments.end(), {&norm[1], &dy, &weight});
  expect(RunCudaOp("spectral_norm_backward", arguments, libraries)[0],
         RunOp("spectral_norm_backward", arguments)[0], 1e-5);
}

}  // namespace
}  // namespace plimsoll::ops
