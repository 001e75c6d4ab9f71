// Clears y, then copies a rectangle. Bytes: x once, y once, this rank's columns of y twice.
#include "gpu/check.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

void Run(const CudaContext& ctx) {
  const TensorRef &x = ctx.inputs[0], &y = ctx.outputs[0];
  const int64_t rank = ctx.ranks == nullptr ? 0 : ctx.ranks->rank();
  const int64_t rows = x.type.shape.rows();
  if (x.type.bytes() == 0) return;
  const int64_t from = x.type.bytes() / rows, to = y.type.bytes() / rows;  // bytes of a row
  gpu::Check(cudaMemsetAsync(y.data, 0, static_cast<size_t>(y.type.bytes()), ctx.stream),
             "cudaMemsetAsync");
  gpu::Check(cudaMemcpy2DAsync(ctx.out<char>(0) + rank * from, static_cast<size_t>(to), x.data,
                               static_cast<size_t>(from), static_cast<size_t>(from),
                               static_cast<size_t>(rows), cudaMemcpyDeviceToDevice, ctx.stream),
             "cudaMemcpy2DAsync");
}

const CudaKernelRegistration kPlaceColumns({"place_columns", &Run});

}  // namespace
}  // namespace plimsoll::ops
