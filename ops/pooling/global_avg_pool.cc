#include "graph/gradient.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/pooling/global_avg_pool_split.h"
#include "ops/pooling/pool_window.h"
#include "ops/pooling/pooling.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Value;

std::vector<TensorType> InferGlobalAvgPool(const OpCall& call) {
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() == 4, call, "x must be floating, [B,H,W,C]");
  CheckImage(call, x.shape.dim(1), x.shape.dim(2), x.shape.dim(3));
  return {{x.dtype, {x.shape.dim(0), x.shape.dim(3)}}};
}

std::vector<TensorType> InferGlobalAvgPoolBackward(const OpCall& call) {
  const TensorType& dy = call.input(0);
  Check(graph::IsFloat(dy.dtype) && dy.shape.rank() == 2, call, "dy must be floating, [B,C]");
  const int64_t h = call.attributes.GetInt("h"), w = call.attributes.GetInt("w");
  CheckImage(call, h, w, dy.shape.dim(1));
  return {{dy.dtype, {dy.shape.dim(0), h, w, dy.shape.dim(1)}}};
}

void GlobalAvgPoolGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  const graph::Shape& x = g.shape(ctx.input(0));
  ctx.SetGradient(0, g.Emit1("global_avg_pool_backward", {ctx.output_gradient(0)},
                             {{"h", x.dim(1)}, {"w", x.dim(2)}}));
}

const OpRegistration kGlobalAvgPool({
    .name = "global_avg_pool",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferGlobalAvgPool,
    .gradient = &GlobalAvgPoolGradient,
    .cost = FlopsPerElement(1),
    .precision = {Precision::kLowStorage, "sums in float32, rounded once"},
});

const OpRegistration kGlobalAvgPoolBackward({
    .name = "global_avg_pool_backward",
    .inputs = {{"dy"}},
    .outputs = {{"dx"}},
    .infer = &InferGlobalAvgPoolBackward,
    .gradient = {},
    .cost = FlopsPerElement(1),
});

const CudaWorkspaceRegistration kGlobalAvgPoolWorkspace("global_avg_pool", [](const OpCall& call) {
  return GlobalAvgPoolBytes(call.input(0).shape);
});

}  // namespace

Value GlobalAvgPool(graph::Builder& g, Value x, std::string_view name) {
  return g.Emit1("global_avg_pool", {x}, {}, name);
}

}  // namespace plimsoll::ops
