// Elementwise, one Eigen expression each (fill: a loop). Threads share blocks of elements. Bytes:
// every argument once.
#include <algorithm>

#include "ops/blocks.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

void Add(const CpuContext& ctx) {
  DispatchFloat(ctx.inputs[0].type.dtype, [&]<typename T>() {
    const T *a = ctx.in<T>(0), *b = ctx.in<T>(1);
    T* y = ctx.out<T>(0);
    ParallelBlocks(ctx.pool, ctx.in_shape(0).elements(), [=](Block of) { of(y) = of(a) + of(b); });
  });
}

void Mul(const CpuContext& ctx) {
  DispatchFloat(ctx.inputs[0].type.dtype, [&]<typename T>() {
    const T *a = ctx.in<T>(0), *b = ctx.in<T>(1);
    T* y = ctx.out<T>(0);
    ParallelBlocks(ctx.pool, ctx.in_shape(0).elements(), [=](Block of) { of(y) = of(a) * of(b); });
  });
}

template <typename T>
void ScaleAll(const CpuContext& ctx, T factor) {
  const T* x = ctx.in<T>(0);
  T* y = ctx.out<T>(0);
  ParallelBlocks(ctx.pool, ctx.in_shape(0).elements(), [=](Block of) { of(y) = of(x) * factor; });
}

void Scale(const CpuContext& ctx) {
  DispatchFloat(ctx.inputs[0].type.dtype, [&]<typename T>() {
    ScaleAll(ctx, static_cast<T>(ctx.attributes.GetReal("factor")));
  });
}

void ScaleBy(const CpuContext& ctx) {
  DispatchFloat(ctx.inputs[0].type.dtype, [&]<typename T>() {
    const bool is_float = ctx.inputs[1].type.dtype == graph::DType::kFloat32;
    ScaleAll(ctx, is_float ? static_cast<T>(*ctx.in<float>(1)) : *ctx.in<T>(1));
  });
}

// Calls body.template operator()<float, double or int32_t>().
template <typename Body>
void DispatchAny(graph::DType dtype, Body&& body) {
  if (dtype == graph::DType::kInt32) return body.template operator()<int32_t>();
  DispatchFloat(dtype, body);
}

void Cast(const CpuContext& ctx) {
  DispatchAny(ctx.inputs[0].type.dtype, [&]<typename From>() {
    DispatchAny(ctx.outputs[0].type.dtype, [&]<typename To>() {
      const From* x = ctx.in<From>(0);
      To* y = ctx.out<To>(0);
      ParallelBlocks(ctx.pool, ctx.in_shape(0).elements(),
                     [=](Block of) { of(y) = of(x).template cast<To>(); });
    });
  });
}

void Fill(const CpuContext& ctx) {
  DispatchAny(ctx.outputs[0].type.dtype, [&]<typename T>() {
    const T value = static_cast<T>(ctx.attributes.GetReal("value"));
    T* y = ctx.out<T>(0);
    ctx.pool.ParallelFor(ctx.out_shape(0).elements(), kElementwiseGrain,
                         [=](int64_t begin, int64_t end) { std::fill(y + begin, y + end, value); });
  });
}

const CpuKernelRegistration kAdd({"add", &Add});
const CpuKernelRegistration kMul({"mul", &Mul});
const CpuKernelRegistration kScale({"scale", &Scale});
const CpuKernelRegistration kScaleBy({"scale_by", &ScaleBy});
const CpuKernelRegistration kCast({"cast", &Cast});
const CpuKernelRegistration kFill({"fill", &Fill});

}  // namespace
}  // namespace plimsoll::ops
