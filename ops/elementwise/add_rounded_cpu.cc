// y = acc + x, rounded stochastically (ops/linear/low_gradient_cpu.h). Bytes: every argument once.
#include "ops/linear/low_gradient_cpu.h"

namespace plimsoll::ops {
namespace {

template <typename X>
void AddRoundedAs(const CpuContext& ctx) {
  const PhiloxStream stream(ctx.in<int32_t>(2), ctx.attributes.GetInt("key"));
  AddRounded(ctx.pool, stream, ctx.in_shape(0).elements(), ctx.in<BFloat16>(0), ctx.in<X>(1),
             ctx.out<BFloat16>(0));
}

void AddRounded(const CpuContext& ctx) {
  if (ctx.inputs[1].type.dtype == graph::DType::kFloat32) return AddRoundedAs<float>(ctx);
  AddRoundedAs<BFloat16>(ctx);
}

const CpuKernelRegistration kAddRounded({"add_rounded", &AddRounded});

}  // namespace
}  // namespace plimsoll::ops
