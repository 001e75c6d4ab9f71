#include "graph/gradient.h"
#include "ops/definition.h"
#include "ops/pooling/pooling.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Value;

void CheckPositions(const OpCall& call) {
  Check(call.attributes.GetInt("kernel_h") * call.attributes.GetInt("kernel_w") <= 255, call,
        "the window must have at most 255 elements");
}

std::vector<TensorType> InferMaxPool2d(const OpCall& call) {
  const TensorType y = InferPooled(call);
  CheckPositions(call);
  return {y, {DType::kUInt8, y.shape}};
}

std::vector<TensorType> InferMaxPool2dBackward(const OpCall& call) {
  const TensorType dx = InferImages(call);
  CheckPositions(call);
  const TensorType index{DType::kUInt8, call.input(0).shape};
  Check(call.input(1) == index, call, "index must be " + index.ToString());
  return {dx};
}

void MaxPool2dGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  ctx.SetGradient(0, g.Emit1("max_pool2d_backward", {ctx.output_gradient(0), ctx.output(1)},
                             WithImageSize(ctx.attributes(), g.shape(ctx.input(0)))));
}

// The op is not cheap to recompute: x is larger than the results by the product of the strides, so
// reading it again costs more than keeping the results.
const OpRegistration kMaxPool2d({
    .name = "max_pool2d",
    .inputs = {{"x"}},
    .outputs = {{"y"}, {"index", true}},
    .infer = &InferMaxPool2d,
    .gradient = &MaxPool2dGradient,
    .cost = &PoolCost,
    .precision = {Precision::kLowStorage, "chooses among elements, rounds nothing"},
});

const OpRegistration kMaxPool2dBackward({
    .name = "max_pool2d_backward",
    .inputs = {{"dy"}, {"index"}},
    .outputs = {{"dx"}},
    .infer = &InferMaxPool2dBackward,
    .gradient = {},
    .cost = &PoolBackwardCost,
});

}  // namespace

Value MaxPool2d(graph::Builder& g, Value x, const Pool2d& window, std::string_view name) {
  return g.Emit1("max_pool2d", {x}, ToAttributes(window), name);
}

}  // namespace plimsoll::ops
