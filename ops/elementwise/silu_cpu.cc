// silu:   y = x · σ,   dx = dy · σ · (1 + x · (1 − σ)).
// swiglu: y = silu(gate) · up,   dgate = dy · up · silu'(gate),   dup = dy · silu(gate).
// Threads share chunks of elements (swiglu: rows). Bytes: silu 2·n·s, backward 3·n·s; for N rows of
// F results, swiglu 3·N·F·s, backward 5·N·F·s, both at once 6·N·F·s.
#include "ops/elementwise/cpu_elementwise.h"
#include "ops/kernel.h"
#include "ops/reductions/row_partials.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

void Silu(const CpuContext& ctx) {
  MapElements<1>(ctx, []<typename T>(Vec<T> x) { return x * Sigmoid<T>(x); });
}

void SiluBackward(const CpuContext& ctx) {
  MapElements<2>(ctx, []<typename T>(Vec<T> x, Vec<T> dy) {
    const Vec<T> s = Sigmoid<T>(x);
    return dy * (s * (1 + x * (1 - s)));
  });
}

void Swiglu(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t half = ctx.out_shape(0).dim(-1);
    const S* gate_up = ctx.in<S>(0);
    S* all_y = ctx.out<S>(0);
    ctx.pool.ParallelFor(ctx.out_shape(0).rows(), RowGrain(half), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const S* gate = gate_up + row * 2 * half;
        const S* up = gate + half;
        S* y = all_y + row * half;
        ForVectors<T>(0, half, [=](int64_t i, auto count) {
          const Vec<T> v = Load<T>(gate + i, count);
          Store<T>(y + i, v * Sigmoid<T>(v) * Load<T>(up + i, count), count);
        });
      }
    });
  });
}

void SwigluBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t half = ctx.in_shape(1).dim(-1);
    const S *gate_up = ctx.in<S>(0), *all_dy = ctx.in<S>(1);
    S* dgate_up = ctx.out<S>(0);
    ctx.pool.ParallelFor(ctx.in_shape(1).rows(), RowGrain(half), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const S* gate = gate_up + row * 2 * half;
        const S* up = gate + half;
        const S* dy = all_dy + row * half;
        S* dgate = dgate_up + row * 2 * half;
        S* dup = dgate + half;
        ForVectors<T>(0, half, [=](int64_t i, auto count) {
          const Vec<T> v = Load<T>(gate + i, count);
          const Vec<T> u = Load<T>(up + i, count);
          const Vec<T> d = Load<T>(dy + i, count);
          const Vec<T> s = Sigmoid<T>(v);
          Store<T>(dgate + i, d * u * (s * (1 + v * (1 - s))), count);
          Store<T>(dup + i, d * v * s, count);
        });
      }
    });
  });
}

// Computes both results from one read, each by the expression of its own op: the same bits.
void SwigluWithBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t half = ctx.in_shape(1).dim(-1);
    const S *gate_up = ctx.in<S>(0), *all_dy = ctx.in<S>(1);
    S *all_y = ctx.out<S>(0), *dgate_up = ctx.out<S>(1);
    ctx.pool.ParallelFor(ctx.in_shape(1).rows(), RowGrain(half), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const S* gate = gate_up + row * 2 * half;
        const S* up = gate + half;
        const S* dy = all_dy + row * half;
        S* y = all_y + row * half;
        S* dgate = dgate_up + row * 2 * half;
        S* dup = dgate + half;
        ForVectors<T>(0, half, [=](int64_t i, auto count) {
          const Vec<T> v = Load<T>(gate + i, count);
          const Vec<T> u = Load<T>(up + i, count);
          const Vec<T> d = Load<T>(dy + i, count);
          const Vec<T> s = Sigmoid<T>(v);
          Store<T>(y + i, v * s * u, count);
          Store<T>(dgate + i, d * u * (s * (1 + v * (1 - s))), count);
          Store<T>(dup + i, d * v * s, count);
        });
      }
    });
  });
}

const CpuKernelRegistration kSilu({"silu", &Silu});
const CpuKernelRegistration kSiluBackward({"silu_backward", &SiluBackward});
const CpuKernelRegistration kSwiglu({"swiglu", &Swiglu});
const CpuKernelRegistration kSwigluBackward({"swiglu_backward", &SwigluBackward});
const CpuKernelRegistration kSwigluWithBackward({"swiglu_with_backward", &SwigluWithBackward});

}  // namespace
}  // namespace plimsoll::ops
