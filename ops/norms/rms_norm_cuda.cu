// y = x · rstd · weight over the last dimension (ops/cuda/norm_forward.cuh), and its gradients in
// one pass over the rows (ops/cuda/norm_backward.cuh).
#include "ops/cuda/norm_backward.cuh"
#include "ops/cuda/norm_forward.cuh"
#include "ops/norms/unit_offset.h"

namespace plimsoll::ops {
namespace {

void RmsNorm(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    LaunchNormForward<T, /*kMean=*/false, /*kAdd=*/false>(
        {.a = ctx.in<T>(0),
         .y = ctx.out<T>(0),
         .rstd = ctx.out<float>(1),
         .rows = ctx.in_shape(0).rows(),
         .width = static_cast<int>(ctx.in_shape(0).dim(-1)),
         .eps = static_cast<float>(ctx.attributes.GetReal("eps")),
         .offset = NormOffset(HasUnitOffset(ctx.attributes)),
         .largest_y = ctx.out<uint32_t>(2)},
        ctx.in<T>(1), ctx.stream);
  });
}

void RmsNormBackward(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const NormBackward<T> p = {.x = ctx.in<T>(0),
                               .weight = ctx.in<T>(1),
                               .mean = nullptr,
                               .rstd = ctx.in<float>(2),
                               .dy = ctx.in<T>(3),
                               .acc = ctx.in<T>(4),
                               .dx = ctx.out<T>(0),
                               .rows = ctx.in_shape(0).rows(),
                               .width = static_cast<int>(ctx.in_shape(0).dim(-1)),
                               .offset = NormOffset(HasUnitOffset(ctx.attributes)),
                               .dropped = ctx.out<T>(2),
                               .dropout = DropoutOf(ctx, 6),
                               .largest_dx = ctx.out<uint32_t>(3),
                               .largest_dropped = ctx.out<uint32_t>(4)};
    LaunchNormBackward<T, /*kMean=*/false>(p, {ctx.in<float>(5), nullptr},
                                           {ctx.out<float>(1), nullptr}, ctx);
  });
}

const CudaKernelRegistration kForward({"rms_norm", &RmsNorm});
const CudaKernelRegistration kBackward({"rms_norm_backward", &RmsNormBackward});

}  // namespace
}  // namespace plimsoll::ops
