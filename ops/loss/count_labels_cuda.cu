// Rows are counted by one block; a warp takes every 32nd row. Labels: a thread takes one label and
// reads its column. Integer sums are the same in any order. Bytes: logits and targets twice.
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kRowThreads = 1024;
constexpr int kLabelThreads = 128;

// Runs as one block.
template <typename S>
__global__ void __launch_bounds__(kRowThreads)
    RowsKernel(int64_t rows, int64_t classes, const S* logits, const float* targets, int32_t* right,
               int32_t* counted) {
  __shared__ int32_t of_warps[2][kRowThreads / kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  int32_t own_right = 0, own_counted = 0;
  for (int64_t row = warp; row < rows; row += kRowThreads / kWarp) {
    bool has_target = false, wrong = false;
    for (int64_t c = lane; c < classes; c += kWarp) {
      const float target = targets[row * classes + c];
      if (isnan(target)) continue;
      has_target = true;
      wrong |= (ToFloat(logits[row * classes + c]) > 0) != (target > 0.5f);
    }
    has_target = __any_sync(~0u, has_target);
    wrong = __any_sync(~0u, wrong);
    own_counted += has_target;
    own_right += has_target && !wrong;
  }
  if (lane == 0) {
    of_warps[0][warp] = own_right;
    of_warps[1][warp] = own_counted;
  }
  __syncthreads();
  if (warp > 1) return;
  const int32_t sum = WarpTotal(of_warps[warp][lane]);
  if (lane == 0) *(warp == 0 ? right : counted) = sum;
}

template <typename S>
__global__ void __launch_bounds__(kLabelThreads)
    LabelsKernel(int64_t rows, int64_t classes, const S* logits, const float* targets,
                 int32_t* counts) {
  const int64_t c = int64_t{blockIdx.x} * kLabelThreads + threadIdx.x;
  if (c >= classes) return;
  int32_t own[4] = {};
  for (int64_t row = 0; row < rows; ++row) {
    const float target = targets[row * classes + c];
    if (isnan(target)) continue;
    const bool has = target > 0.5f, said = ToFloat(logits[row * classes + c]) > 0;
    own[0] += said && has;
    own[1] += said && !has;
    own[2] += !said && has;
    own[3] += !said && !has;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) counts[4 * c + k] = own[k];
}

void Run(const CudaContext& ctx) {
  const int64_t rows = ctx.in_shape(0).rows(), classes = ctx.in_shape(0).dim(-1);
  const float* const targets = ctx.in<float>(1);
  int32_t* const counts = ctx.out<int32_t>(2);
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    RowsKernel<<<1, kRowThreads, 0, ctx.stream>>>(rows, classes, ctx.in<S>(0), targets,
                                                  ctx.out<int32_t>(0), ctx.out<int32_t>(1));
    gpu::CheckLaunch("count_labels");
    if (counts == nullptr || classes == 0) return;
    const auto blocks = static_cast<unsigned>((classes + kLabelThreads - 1) / kLabelThreads);
    LabelsKernel<<<blocks, kLabelThreads, 0, ctx.stream>>>(rows, classes, ctx.in<S>(0), targets,
                                                           counts);
    gpu::CheckLaunch("count_labels");
  });
}

const CudaKernelRegistration kCountLabels({"count_labels", &Run});

}  // namespace
}  // namespace plimsoll::ops
