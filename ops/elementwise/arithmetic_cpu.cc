// Elementwise, with vectors. Threads share chunks of elements. 16-bit elements are computed in
// float and rounded once. Bytes: every argument once.
#include <algorithm>
#include <type_traits>

#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/cpu_elementwise.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

void AddIntegers(const CpuContext& ctx) {
  const auto *a = ctx.in<uint32_t>(0), *b = ctx.in<uint32_t>(1);  // unsigned, so that sums wrap
                                                                  // around
  auto* y = ctx.out<uint32_t>(0);
  ctx.pool.ParallelFor(ctx.in_shape(0).elements(), kElementwiseGrain,
                       [=](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i) y[i] = a[i] + b[i];
                       });
}

void Add(const CpuContext& ctx) {
  if (ctx.inputs[0].type.dtype == graph::DType::kInt32) return AddIntegers(ctx);
  MapElements<2>(ctx, []<typename T>(Vec<T> a, Vec<T> b) { return a + b; });
}

void ScaleAll(const CpuContext& ctx, double factor) {
  MapElements<1>(ctx, [=]<typename T>(Vec<T> x) { return x * static_cast<T>(factor); });
}

void ScaleBy(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[1].type.dtype,
                 [&]<typename S>() { ScaleAll(ctx, Load<Compute<S>>(ctx.in<S>(1), 1)[0]); });
}

template <typename S>
constexpr bool kIs16Bit = std::is_same_v<S, BFloat16> || std::is_same_v<S, Float16>;

// The intermediate type of a conversion to or from a 16-bit type; other types convert directly.
template <typename From>
auto Widen(From value) {
  if constexpr (kIs16Bit<From>) {
    return ToFloat(value);
  } else {
    return value;
  }
}
template <typename To, typename Wide>
To Narrow(Wide value) {
  if constexpr (std::is_same_v<To, BFloat16>) {
    return {ToBf16(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<To, Float16>) {
    return {ToF16(static_cast<float>(value))};
  } else {
    return static_cast<To>(value);
  }
}

void Scale(const CpuContext& ctx) {
  double factor = ctx.attributes.GetReal("factor");
  if (HasRoundedFactor(ctx.attributes)) {
    DispatchStored(ctx.inputs[0].type.dtype,
                   [&]<typename S>() { factor = static_cast<double>(Widen(Narrow<S>(factor))); });
  }
  ScaleAll(ctx, factor);
}

// Converts between float and the 16-bit types, which training uses, with vectors.
template <typename From, typename To>
void CastElements(const From* x, To* y, int64_t begin, int64_t end) {
  constexpr bool kFromNarrow = kIs16Bit<From> || std::is_same_v<From, float>;
  constexpr bool kToNarrow = kIs16Bit<To> || std::is_same_v<To, float>;
  if constexpr (kFromNarrow && kToNarrow) {
    ForVectors<float>(begin, end, [=](int64_t i, auto count) {
      Store<float>(y + i, Load<float>(x + i, count), count);
    });
  } else {
    for (int64_t i = begin; i < end; ++i) y[i] = Narrow<To>(Widen(x[i]));
  }
}

// Calls body.template operator()<float, double, BFloat16, Float16 or int32_t>().
template <typename Body>
void DispatchAny(graph::DType dtype, Body&& body) {
  if (dtype == graph::DType::kInt32) return body.template operator()<int32_t>();
  DispatchStored(dtype, body);
}

void Cast(const CpuContext& ctx) {
  DispatchAny(ctx.inputs[0].type.dtype, [&]<typename From>() {
    DispatchAny(ctx.outputs[0].type.dtype, [&]<typename To>() {
      const From* x = ctx.in<From>(0);
      To* y = ctx.out<To>(0);
      ctx.pool.ParallelFor(ctx.in_shape(0).elements(), kElementwiseGrain,
                           [=](int64_t begin, int64_t end) { CastElements(x, y, begin, end); });
    });
  });
}

void Fill(const CpuContext& ctx) {
  DispatchAny(ctx.outputs[0].type.dtype, [&]<typename S>() {
    const S value = Narrow<S>(ctx.attributes.GetReal("value"));
    S* y = ctx.out<S>(0);
    ctx.pool.ParallelFor(ctx.out_shape(0).elements(), kElementwiseGrain,
                         [=](int64_t begin, int64_t end) { std::fill(y + begin, y + end, value); });
  });
}

const CpuKernelRegistration kAdd({"add", &Add});
const CpuKernelRegistration kMul =
    ElementwiseKernel<2>("mul", []<typename T>(Vec<T> a, Vec<T> b) { return a * b; });
const CpuKernelRegistration kScale({"scale", &Scale});
const CpuKernelRegistration kScaleBy({"scale_by", &ScaleBy});
const CpuKernelRegistration kCast({"cast", &Cast});
const CpuKernelRegistration kFill({"fill", &Fill});

}  // namespace
}  // namespace plimsoll::ops
