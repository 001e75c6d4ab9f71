// sum = a + b, y = norm(sum): the kernels of layer_norm and rms_norm with an addition before them
// (ops/cuda/norm_forward.cuh), in the same arithmetic. Bytes: 4·N·D·s; separate ops, `add` and a
// norm, move 5·N·D·s. Dropout of b, whose mask is made in registers, adds no bytes; a separate
// `dropout` moves 2·N·D·s more.
#include "ops/cuda/norm_forward.cuh"
#include "ops/norms/unit_offset.h"

namespace plimsoll::ops {
namespace {

template <bool kMean>
void AddNorm(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const NormForward<T> p = {.a = ctx.in<T>(0),
                              .b = ctx.in<T>(1),
                              .bias = kMean ? ctx.in<T>(3) : nullptr,
                              .sum = ctx.out<T>(0),
                              .y = ctx.out<T>(1),
                              .mean = kMean ? ctx.out<float>(2) : nullptr,
                              .rstd = ctx.out<float>(kMean ? 3 : 2),
                              .rows = ctx.in_shape(0).rows(),
                              .width = static_cast<int>(ctx.in_shape(0).dim(-1)),
                              .eps = static_cast<float>(ctx.attributes.GetReal("eps")),
                              .offset = NormOffset(HasUnitOffset(ctx.attributes)),
                              .dropout = DropoutOf(ctx, kMean ? 4 : 3),
                              .largest_sum = ctx.out<uint32_t>(kMean ? 4 : 3),
                              .largest_y = ctx.out<uint32_t>(kMean ? 5 : 4)};
    if (p.dropout.rng != nullptr) {
      LaunchNormForward<T, kMean, /*kAdd=*/true, /*kDrop=*/true>(p, ctx.in<T>(2), ctx.stream);
    } else {
      LaunchNormForward<T, kMean, /*kAdd=*/true>(p, ctx.in<T>(2), ctx.stream);
    }
  });
}

const CudaKernelRegistration kAddLayerNorm({"add_layer_norm", &AddNorm</*kMean=*/true>});
const CudaKernelRegistration kAddRmsNorm({"add_rms_norm", &AddNorm</*kMean=*/false>});

}  // namespace
}  // namespace plimsoll::ops
