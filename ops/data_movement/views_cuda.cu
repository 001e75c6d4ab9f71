// select_rows: a block copies a row for each batch entry, element by element. A row outside the
// sequence gives NaN, because a kernel cannot throw. Bytes: 2·B·D·s.
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;

template <typename S>
__global__ void __launch_bounds__(kThreads)
    SelectRowsKernel(const S* x, const int32_t* index, S* y, int64_t sequence, int64_t width) {
  const int64_t b = blockIdx.x;
  const int64_t row = index[b];
  const bool there = row >= 0 && row < sequence;
  for (int64_t i = threadIdx.x; i < width; i += kThreads) {
    y[b * width + i] = there ? x[(b * sequence + row) * width + i] : FromFloat<S>(nanf(""));
  }
}

void SelectRows(const CudaContext& ctx) {
  const graph::Shape& x = ctx.in_shape(0);
  if (ctx.out_shape(0).elements() == 0) return;
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    SelectRowsKernel<<<static_cast<unsigned>(x.dim(0)), kThreads, 0, ctx.stream>>>(
        ctx.in<S>(0), ctx.in<int32_t>(1), ctx.out<S>(0), x.dim(1), x.dim(2));
    gpu::CheckLaunch("select_rows");
  });
}

const CudaKernelRegistration kSelectRows({"select_rows", &SelectRows});

}  // namespace
}  // namespace plimsoll::ops
