// Gradients in bf16 that are added in the epilogue of a product have the bits of those that are
// added in slices. Operands are small integers, whose sums float32 holds exactly in any order.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "gpu/capability.h"
#include "ops/cuda/products/gemm_forms.h"
#include "ops/cuda/products/low_gradient.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

TestTensor Integers(const graph::Shape& shape, int seed, double scale) {
  TestTensor tensor = NormalValues(DType::kFloat32, shape, seed, scale);
  TestTensor integers({DType::kBFloat16, shape});
  for (int64_t i = 0; i < tensor.size(); ++i) integers.set(i, std::round(tensor.at(i)));
  return integers;
}

struct Size {
  int64_t m, n, k;
};

class CudaLowGradient : public testing::TestWithParam<Size> {};

TEST_P(CudaLowGradient, EpilogueHasTheBitsOfSlices) {
  PLIMSOLL_NEEDS_CUDA
  if (!gpu::OnHopper()) GTEST_SKIP() << "no Hopper GPU";
  const auto [m, n, k] = GetParam();
  const CudaTensor dy(Integers({k, m}, 1, 1)), x(Integers({k, n}, 2, 1));
  const TestTensor acc = Integers({m, n}, 3, 1e4);
  TestTensor rng({DType::kInt32, {2}});
  rng.set(0, 12);
  rng.set(1, 34);
  const CudaTensor device_rng(rng);
  const auto workspace = CudaMemory(kGemmWorkspaceBytes), wide = CudaMemory(LowGradientBytes(m, n));
  LowGradient gradient;
  gradient.problem.trans_a = true;
  gradient.problem.m = gradient.problem.lda = m;
  gradient.problem.n = gradient.problem.ldb = gradient.problem.ldc = n;
  gradient.problem.k = k;
  gradient.problem.type_a = gradient.problem.type_b = gradient.problem.result = DType::kBFloat16;
  gradient.buffers.a = dy.data();
  gradient.buffers.b = x.data();
  gradient.buffers.workspace = workspace.get();
  gradient.buffers.workspace_bytes = kGemmWorkspaceBytes;
  gradient.random = {static_cast<const int32_t*>(device_rng.data()), 11, 5};
  gradient.wide = wide.get();

  gpu::Libraries libraries;
  const auto added = [&](bool in_place, const auto& add) {
    const CudaTensor from(acc), to = in_place ? from : CudaTensor(acc.type());
    gradient.buffers.c = from.data();
    gradient.buffers.d = to.data();
    add();
    gpu::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return to.Download();
  };
  const TestTensor slices = added(false, [&] { AddInSlices(libraries, nullptr, gradient); });
  for (const bool in_place : {false, true}) {
    const TestTensor got = added(in_place, [&] {
      ASSERT_TRUE(RoundsInEpilogue(gradient, libraries.multiprocessors()));
      AddInEpilogue(nullptr, gradient, libraries.multiprocessors());
    });
    int64_t differ = 0;
    for (int64_t i = 0; i < got.size(); ++i) differ += got.at(i) != slices.at(i);
    EXPECT_EQ(differ, 0) << "of " << got.size();
  }
}

// Whole tiles and shares of tiles; ends within a tile; fewer steps than pieces to store.
INSTANTIATE_TEST_SUITE_P(Sizes, CudaLowGradient,
                         testing::Values(Size{1000, 1016, 1111}, Size{4096, 4608, 192},
                                         Size{5000, 3080, 1024}, Size{256, 512, 9000},
                                         Size{17000, 1544, 64}, Size{3584, 4608, 2048}));

}  // namespace
}  // namespace plimsoll::ops
