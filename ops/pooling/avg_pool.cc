#include "graph/gradient.h"
#include "ops/definition.h"
#include "ops/pooling/pooling.h"

namespace plimsoll::ops {
namespace {

using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Value;

std::vector<TensorType> InferAvgPool2d(const OpCall& call) {
  call.attributes.GetBool("count_include_pad");
  return {InferPooled(call)};
}

std::vector<TensorType> InferAvgPool2dBackward(const OpCall& call) {
  call.attributes.GetBool("count_include_pad");
  return {InferImages(call)};
}

void AvgPool2dGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  ctx.SetGradient(0, g.Emit1("avg_pool2d_backward", {ctx.output_gradient(0)},
                             WithImageSize(ctx.attributes(), g.shape(ctx.input(0)))));
}

const OpRegistration kAvgPool2d({
    .name = "avg_pool2d",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferAvgPool2d,
    .gradient = &AvgPool2dGradient,
    .cost = &PoolCost,
    .precision = {Precision::kLowStorage, "sums in float32, rounded once"},
});

const OpRegistration kAvgPool2dBackward({
    .name = "avg_pool2d_backward",
    .inputs = {{"dy"}},
    .outputs = {{"dx"}},
    .infer = &InferAvgPool2dBackward,
    .gradient = {},
    .cost = &PoolBackwardCost,
});

}  // namespace

Value AvgPool2d(graph::Builder& g, Value x, const Pool2d& window, const AvgPool2dOptions& options,
                std::string_view name) {
  graph::Attributes attributes = ToAttributes(window);
  attributes.Set("count_include_pad", options.count_include_pad);
  return g.Emit1("avg_pool2d", {x}, attributes, name);
}

}  // namespace plimsoll::ops
