// y = max(x, 0),   dx = dy where y > 0, else 0. Threads share chunks of elements.
// Bytes: forward 2·n·s, backward 3·n·s.
//
// The conditions let NaN through: y is NaN where x is, and dx is dy there, as in PyTorch.
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

void Relu(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const S* x = ctx.in<S>(0);
    S* y = ctx.out<S>(0);
    ParallelVectors<T>(ctx.pool, ctx.in_shape(0).elements(), [=](int64_t i, auto count) {
      const Vec<T> v = Load<T>(x + i, count);
      Store<T>(y + i, v <= 0 ? Vec<T>{} : v, count);
    });
  });
}

void ReluBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const S *y = ctx.in<S>(0), *dy = ctx.in<S>(1);
    S* dx = ctx.out<S>(0);
    ParallelVectors<T>(ctx.pool, ctx.in_shape(0).elements(), [=](int64_t i, auto count) {
      const Vec<T> d = Load<T>(dy + i, count);
      Store<T>(dx + i, Load<T>(y + i, count) <= 0 ? Vec<T>{} : d, count);
    });
  });
}

const CpuKernelRegistration kRelu({"relu", &Relu});
const CpuKernelRegistration kReluBackward({"relu_backward", &ReluBackward});

}  // namespace
}  // namespace plimsoll::ops
