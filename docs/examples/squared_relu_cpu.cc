// y = max(x, 0)²,   dx = 2 · max(x, 0) · dy. Threads share chunks of elements.
// Bytes: forward 2·n·s, backward 3·n·s.
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

template <typename T>
Vec<T> Relu(Vec<T> x) {
  return x > 0 ? x : Vec<T>{};
}

// Stored is the tensor's type, T the one computed in: float for the 16-bit types.
void Forward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename Stored>() {
    using T = Compute<Stored>;
    const Stored* x = ctx.in<Stored>(0);
    Stored* y = ctx.out<Stored>(0);
    ParallelVectors<T>(ctx.pool, ctx.in_shape(0).elements(), [=](int64_t i, auto count) {
      const Vec<T> r = Relu<T>(Load<T>(x + i, count));
      Store<T>(y + i, r * r, count);
    });
  });
}

void Backward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename Stored>() {
    using T = Compute<Stored>;
    const Stored *x = ctx.in<Stored>(0), *dy = ctx.in<Stored>(1);
    Stored* dx = ctx.out<Stored>(0);
    ParallelVectors<T>(ctx.pool, ctx.in_shape(0).elements(), [=](int64_t i, auto count) {
      const Vec<T> r = Relu<T>(Load<T>(x + i, count));
      Store<T>(dx + i, 2 * r * Load<T>(dy + i, count), count);
    });
  });
}

const CpuKernelRegistration kForward({"squared_relu", &Forward});
const CpuKernelRegistration kBackward({"squared_relu_backward", &Backward});

}  // namespace
}  // namespace plimsoll::ops
