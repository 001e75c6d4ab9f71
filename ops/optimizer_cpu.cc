// Formulas in ops/optimizer.h; one pass over memory, threads sharing blocks of elements. adamw is
// three Eigen expressions; sgd, whose terms depend on which arguments there are, builds its step
// from vectors. Bytes: adamw 7·n·s (reads p, g, m, v; writes p, m, v), sgd 3·n·s, with momentum
// 5·n·s.
#include <cmath>

#include "ops/blocks.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

void Increment(const CpuContext &ctx) { *ctx.out<int32_t>(0) = *ctx.in<int32_t>(0) + 1; }

void AdamW(const CpuContext &ctx) {
  DispatchFloat(ctx.inputs[0].type.dtype, [&]<typename T>() {
    const double lr = *ctx.in<float>(4);
    const double count = *ctx.in<int32_t>(5);
    const double beta1 = ctx.attributes.GetReal("beta1");
    const double beta2 = ctx.attributes.GetReal("beta2");
    const T clip = ctx.has_input(6) ? static_cast<T>(*ctx.in<float>(6)) : T{1};
    const T decay = static_cast<T>(1 - lr * ctx.attributes.GetReal("weight_decay"));
    const T share1 = static_cast<T>(1 - beta1);
    const T keep2 = static_cast<T>(beta2), share2 = static_cast<T>(1 - beta2);
    const T step = static_cast<T>(lr / (1 - std::pow(beta1, count)));
    const T root = static_cast<T>(1 / std::sqrt(1 - std::pow(beta2, count)));
    const T eps = static_cast<T>(ctx.attributes.GetReal("eps"));
    const T *p = ctx.in<T>(0), *g = ctx.in<T>(1), *m = ctx.in<T>(2), *v = ctx.in<T>(3);
    T *p_out = ctx.out<T>(0), *m_out = ctx.out<T>(1), *v_out = ctx.out<T>(2);
    ParallelBlocks(ctx.pool, ctx.in_shape(0).elements(), [=](Block of) {
      of(m_out) = of(m) + (of(g) * clip - of(m)) * share1;
      of(v_out) = of(v) * keep2 + (of(g) * clip).square() * share2;
      of(p_out) = of(p) * decay - of(m_out) / (of(v_out).sqrt() * root + eps) * step;
    });
  });
}

void Sgd(const CpuContext &ctx) {
  DispatchFloat(ctx.inputs[0].type.dtype, [&]<typename T>() {
    const T lr = static_cast<T>(*ctx.in<float>(3));
    const T clip = ctx.has_input(4) ? static_cast<T>(*ctx.in<float>(4)) : T{1};
    const T momentum = static_cast<T>(ctx.attributes.GetReal("momentum"));
    const T decay = static_cast<T>(ctx.attributes.GetReal("weight_decay"));
    const bool nesterov = ctx.attributes.GetBool("nesterov");
    const T *p = ctx.in<T>(0), *g = ctx.in<T>(1), *buffer = ctx.in<T>(2);
    T *p_out = ctx.out<T>(0), *buffer_out = ctx.out<T>(1);
    ParallelVectors<T>(ctx.pool, ctx.in_shape(0).elements(), [=](int64_t i, auto count) {
      const Vec<T> old_p = Load<T>(p + i, count);
      const Vec<T> gradient = Load<T>(g + i, count) * clip + old_p * decay;
      Vec<T> moved = gradient;  // the buffer; absent, it counts as zero
      if (buffer != nullptr) moved += Load<T>(buffer + i, count) * momentum;
      const Vec<T> direction = nesterov ? gradient + moved * momentum : moved;
      Store<T>(p_out + i, old_p - direction * lr, count);
      if (buffer_out != nullptr) Store<T>(buffer_out + i, moved, count);
    });
  });
}

const CpuKernelRegistration kIncrement({"increment", &Increment});
const CpuKernelRegistration kAdamW({"adamw", &AdamW});
const CpuKernelRegistration kSgd({"sgd", &Sgd});

}  // namespace
}  // namespace plimsoll::ops
