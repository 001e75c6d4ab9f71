// y = (x − mean) · rstd · weight + bias over the last dimension (ops/cuda/norm_forward.cuh), and
// its gradients in one pass over the rows (ops/cuda/norm_backward.cuh).
#include "ops/cuda/norm_backward.cuh"
#include "ops/cuda/norm_forward.cuh"

namespace plimsoll::ops {
namespace {

void LayerNorm(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    LaunchNormForward<T, /*kMean=*/true, /*kAdd=*/false>(
        {.a = ctx.in<T>(0),
         .bias = ctx.in<T>(2),
         .y = ctx.out<T>(0),
         .mean = ctx.out<float>(1),
         .rstd = ctx.out<float>(2),
         .rows = ctx.in_shape(0).rows(),
         .width = static_cast<int>(ctx.in_shape(0).dim(-1)),
         .eps = static_cast<float>(ctx.attributes.GetReal("eps")),
         .largest_y = ctx.out<uint32_t>(3)},
        ctx.in<T>(1), ctx.stream);
  });
}

void LayerNormBackward(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const NormBackward<T> p = {.x = ctx.in<T>(0),
                               .weight = ctx.in<T>(1),
                               .mean = ctx.in<float>(2),
                               .rstd = ctx.in<float>(3),
                               .dy = ctx.in<T>(4),
                               .acc = ctx.in<T>(5),
                               .dx = ctx.out<T>(0),
                               .rows = ctx.in_shape(0).rows(),
                               .width = static_cast<int>(ctx.in_shape(0).dim(-1)),
                               .dropped = ctx.out<T>(3),
                               .dropout = DropoutOf(ctx, 8),
                               .largest_dx = ctx.out<uint32_t>(4),
                               .largest_dropped = ctx.out<uint32_t>(5)};
    LaunchNormBackward<T, /*kMean=*/true>(p, {ctx.in<float>(6), ctx.in<float>(7)},
                                          {ctx.out<float>(1), ctx.out<float>(2)}, ctx);
  });
}

const CudaKernelRegistration kForward({"layer_norm", &LayerNorm});
const CudaKernelRegistration kBackward({"layer_norm_backward", &LayerNormBackward});

}  // namespace
}  // namespace plimsoll::ops
