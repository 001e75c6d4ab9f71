#include "ops/elementwise/dropout.h"

#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

std::vector<TensorType> InferDropout(const OpCall& call) {
  CheckRng(call, 1);
  const double p = call.attributes.GetReal("p");
  Check(p >= 0 && p < 1, call, "p must be in [0, 1)");
  call.attributes.GetInt("key");
  if (DropsScores(call.attributes)) {
    Check(!call.attributes.Has("axis"), call, "ranks can't share scores");
    const graph::Shape& x = call.input(0).shape;
    Check(
        x.rank() >= 2 && x.dim(x.rank() - 1) > 0 && x.dim(x.rank() - 2) % x.dim(x.rank() - 1) == 0,
        call, "scores need x[..., n*T, T]");
  }
  return LikeFloatInput0(call);
}

void DropoutGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  ctx.SetGradient(
      0, ctx.builder().Emit1("dropout", {ctx.output_gradient(0), ctx.input(1)}, ctx.attributes()));
}

const OpRegistration kDropout({
    .name = "dropout",
    .inputs = {{"x"}, {"rng"}},
    .outputs = {{"y"}},
    .infer = &InferDropout,
    .gradient = &DropoutGradient,
    .cost = FlopsPerElement(1),
    .in_place = {{0, 0}},
    .random = true,
    .precision = {Precision::kLowStorage, "one rounding per element"},
    .sharding = {.follows = ShardingRule::kElements},
    .cheap_to_recompute = true,
});

}  // namespace

Value Dropout(graph::Builder& g, Value x, Value rng, double p, std::string_view name) {
  if (p == 0) return x;
  return g.Emit1("dropout", {x, rng}, {{"p", p}, {"key", g.NextKey()}}, name);
}

}  // namespace plimsoll::ops
