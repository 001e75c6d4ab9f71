#include "ops/elementwise/drop_path.h"

#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Value;

std::vector<TensorType> InferDropPath(const OpCall& call) {
  CheckRng(call, 1);
  Check(call.input(0).shape.rank() >= 1, call, "x must have samples in its first dimension");
  const double p = call.attributes.GetReal("p");
  Check(p >= 0 && p < 1, call, "p must be in [0, 1)");
  call.attributes.GetInt("key");
  return LikeFloatInput0(call);
}

void DropPathGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(0, ctx.builder().Emit1("drop_path", {ctx.output_gradient(0), ctx.input(1)},
                                         ctx.attributes()));
}

// Tensor-parallel ranks may have different tokens of one sample, so the op needs all tokens.
const OpRegistration kDropPath({
    .name = "drop_path",
    .inputs = {{"x"}, {"rng"}},
    .outputs = {{"y"}},
    .infer = &InferDropPath,
    .gradient = &DropPathGradient,
    .cost = FlopsPerElement(1),
    .in_place = {{0, 0}},
    .random = true,
    .precision = {Precision::kLowStorage, "one rounding per element"},
    .cheap_to_recompute = true,
});

}  // namespace

Value DropPath(graph::Builder& g, Value x, Value rng, double p, std::string_view name) {
  if (p == 0) return x;
  return g.Emit1("drop_path", {x, rng}, {{"p", p}, {"key", g.NextKey()}}, name);
}

}  // namespace plimsoll::ops
