// One block, since few rows are few comparisons; a thread takes every 256th row. Integer sums are
// the same in any order. Labels are below C. Bytes: every argument once.
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;

template <typename Stored>
__global__ void ConfusionKernel(int64_t rows, int64_t classes, const Stored* logits,
                                const int32_t* labels, int32_t* counts, int32_t* right,
                                int32_t* all) {
  for (int64_t i = threadIdx.x; i < classes * classes; i += kThreads) counts[i] = 0;
  if (threadIdx.x == 0) *right = *all = 0;
  __syncthreads();
  for (int64_t row = threadIdx.x; row < rows; row += kThreads) {
    const int32_t label = labels[row];
    if (label < 0) continue;
    const Stored* const row_logits = logits + row * classes;
    int64_t said = 0;
    for (int64_t c = 1; c < classes; ++c) {
      if (ToFloat(row_logits[c]) > ToFloat(row_logits[said])) said = c;
    }
    atomicAdd(&counts[label * classes + said], 1);
    atomicAdd(right, said == label);
    atomicAdd(all, 1);
  }
}

void Run(const CudaContext& ctx) {
  const int64_t classes = ctx.in_shape(0).dim(-1), rows = ctx.in_shape(1).elements();
  DispatchCuda(ctx.dtype(), [&]<typename Stored>() {
    ConfusionKernel<<<1, kThreads, 0, ctx.stream>>>(
        rows, classes, ctx.in<Stored>(0), ctx.in<int32_t>(1), ctx.out<int32_t>(0),
        ctx.out<int32_t>(1), ctx.out<int32_t>(2));
  });
  gpu::CheckLaunch("confusion");
}

const CudaKernelRegistration kConfusion({"confusion", &Run});

}  // namespace
}  // namespace plimsoll::ops
