// x = code · scale (ops/linear/quantize.h).
//
// Threads share the elements. Bytes: codes once, x once.
#include "base/float8.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

void Round(float x, BFloat16& to) { to = {ToBf16(x)}; }
void Round(float x, Float16& to) { to = {ToF16(x)}; }

template <typename Code, typename S>
void Decode(const CpuContext& ctx) {
  const Code* const codes = ctx.in<Code>(0);
  S* const x = ctx.out<S>(0);
  const float scale = *ctx.in<float>(1);
  ctx.pool.ParallelFor(ctx.in_shape(0).elements(), kElementwiseGrain,
                       [=](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i) {
                           Round(ToFloat(codes[i]) * scale, x[i]);
                         }
                       });
}

template <typename Code>
void Into(const CpuContext& ctx) {
  if (ctx.outputs[0].type.dtype == graph::DType::kBFloat16) {
    Decode<Code, BFloat16>(ctx);
  } else {
    Decode<Code, Float16>(ctx);
  }
}

void Dequantize(const CpuContext& ctx) {
  if (ctx.inputs[0].type.dtype == graph::DType::kFloat8E4M3) {
    Into<Float8E4M3>(ctx);
  } else {
    Into<Float8E5M2>(ctx);
  }
}

const CpuKernelRegistration kDequantize({"dequantize", &Dequantize});

}  // namespace
}  // namespace plimsoll::ops
