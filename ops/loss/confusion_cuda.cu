// A block takes a chunk of rows, a thread every 256th of them. It counts in shared memory where
// classes are few, as when every voxel of a volume is a row, and then adds its counts to the totals
// of all blocks. Integer sums are the same in any order. Labels are below C. Bytes: every argument
// once.
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kRowsOfBlock = 4096;
constexpr int64_t kFewClasses = 64;

__global__ void __launch_bounds__(kThreads)
    ClearKernel(int64_t cells, int32_t* counts, int32_t* right, int32_t* all) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < cells) counts[i] = 0;
  if (i == 0) *right = *all = 0;
}

template <typename Stored>
__device__ int64_t Largest(const Stored* row, int64_t classes) {
  int64_t largest = 0;
  float most = ToFloat(row[0]);
  for (int64_t c = 1; c < classes; ++c) {
    const float logit = ToFloat(row[c]);
    if (logit > most) {
      most = logit;
      largest = c;
    }
  }
  return largest;
}

// The totals to which all blocks add begin as zeros.
template <typename Stored, bool kFew>
__global__ void __launch_bounds__(kThreads)
    ConfusionKernel(int64_t rows, int64_t classes, const Stored* logits, const int32_t* labels,
                    int32_t* counts, int32_t* right, int32_t* all) {
  __shared__ int32_t shared[kFew ? kFewClasses * kFewClasses : 1];
  const int64_t cells = classes * classes;
  int32_t* const own = kFew ? shared : counts;
  if (kFew) {
    for (int64_t i = threadIdx.x; i < cells; i += kThreads) shared[i] = 0;
    __syncthreads();
  }
  int32_t own_right = 0, own_all = 0;
  const int64_t begin = blockIdx.x * kRowsOfBlock, end = min(begin + kRowsOfBlock, rows);
  for (int64_t row = begin + threadIdx.x; row < end; row += kThreads) {
    const int32_t label = labels[row];
    if (label < 0) continue;
    const int64_t said = Largest(logits + row * classes, classes);
    atomicAdd(&own[label * classes + said], 1);
    own_right += said == label;
    ++own_all;
  }
  own_right = WarpTotal(own_right);
  own_all = WarpTotal(own_all);
  if (threadIdx.x % kWarp == 0 && own_all > 0) {
    atomicAdd(right, own_right);
    atomicAdd(all, own_all);
  }
  if (!kFew) return;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < cells; i += kThreads) {
    if (shared[i] > 0) atomicAdd(&counts[i], shared[i]);
  }
}

unsigned Blocks(int64_t work, int64_t of_block) {
  return static_cast<unsigned>((work + of_block - 1) / of_block);
}

void Run(const CudaContext& ctx) {
  const int64_t classes = ctx.in_shape(0).dim(-1), rows = ctx.in_shape(1).elements();
  const int64_t cells = classes * classes;
  int32_t *const counts = ctx.out<int32_t>(0), *const right = ctx.out<int32_t>(1);
  int32_t* const all = ctx.out<int32_t>(2);
  ClearKernel<<<Blocks(cells, kThreads), kThreads, 0, ctx.stream>>>(cells, counts, right, all);
  gpu::CheckLaunch("confusion");
  if (rows == 0) return;
  DispatchCuda(ctx.dtype(), [&]<typename Stored>() {
    const auto kernel =
        classes <= kFewClasses ? &ConfusionKernel<Stored, true> : &ConfusionKernel<Stored, false>;
    kernel<<<Blocks(rows, kRowsOfBlock), kThreads, 0, ctx.stream>>>(
        rows, classes, ctx.in<Stored>(0), ctx.in<int32_t>(1), counts, right, all);
  });
  gpu::CheckLaunch("confusion");
}

const CudaKernelRegistration kConfusion({"confusion", &Run});

}  // namespace
}  // namespace plimsoll::ops
