// A norm's backward pass that also recomputes y: the kernels of layer_norm_backward and
// rms_norm_backward with one more result (ops/cuda/norm_backward.cuh). Bytes: 4·N·D·s, and N·D·s
// more for acc and for the dropped dx. A separate norm and backward op move 2·N·D·s more.
#include "ops/cuda/norm_backward.cuh"
#include "ops/norms/unit_offset.h"

namespace plimsoll::ops {
namespace {

void LayerNorm(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const NormBackward<T> p = {.x = ctx.in<T>(0),
                               .weight = ctx.in<T>(1),
                               .mean = ctx.in<float>(3),
                               .rstd = ctx.in<float>(4),
                               .dy = ctx.in<T>(5),
                               .acc = ctx.in<T>(6),
                               .dx = ctx.out<T>(1),
                               .rows = ctx.in_shape(0).rows(),
                               .width = static_cast<int>(ctx.in_shape(0).dim(-1)),
                               .y = ctx.out<T>(0),
                               .bias = ctx.in<T>(2),
                               .dropped = ctx.out<T>(4),
                               .dropout = DropoutOf(ctx, 9),
                               .largest_y = ctx.out<uint32_t>(5),
                               .largest_dx = ctx.out<uint32_t>(6),
                               .largest_dropped = ctx.out<uint32_t>(7)};
    LaunchNormBackward<T, /*kMean=*/true, /*kAgain=*/true>(
        p, {ctx.in<float>(7), ctx.in<float>(8)}, {ctx.out<float>(2), ctx.out<float>(3)}, ctx);
  });
}

void RmsNorm(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const NormBackward<T> p = {.x = ctx.in<T>(0),
                               .weight = ctx.in<T>(1),
                               .mean = nullptr,
                               .rstd = ctx.in<float>(2),
                               .dy = ctx.in<T>(3),
                               .acc = ctx.in<T>(4),
                               .dx = ctx.out<T>(1),
                               .rows = ctx.in_shape(0).rows(),
                               .width = static_cast<int>(ctx.in_shape(0).dim(-1)),
                               .offset = NormOffset(HasUnitOffset(ctx.attributes)),
                               .y = ctx.out<T>(0),
                               .dropped = ctx.out<T>(3),
                               .dropout = DropoutOf(ctx, 6),
                               .largest_y = ctx.out<uint32_t>(4),
                               .largest_dx = ctx.out<uint32_t>(5),
                               .largest_dropped = ctx.out<uint32_t>(6)};
    LaunchNormBackward<T, /*kMean=*/false, /*kAgain=*/true>(p, {ctx.in<float>(5), nullptr},
                                                            {ctx.out<float>(2), nullptr}, ctx);
  });
}

const CudaKernelRegistration kLayerNorm({"layer_norm_with_backward", &LayerNorm});
const CudaKernelRegistration kRmsNorm({"rms_norm_with_backward", &RmsNorm});

}  // namespace
}  // namespace plimsoll::ops
