#include "ops/data_movement/subsample.h"

#include <vector>

#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Value;

std::vector<TensorType> InferSubsample(const OpCall& call) {
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() == 4, call, "x must be floating, [B,H,W,C]");
  const int64_t stride = call.attributes.GetInt("stride");
  const int64_t channels = call.attributes.GetInt("channels");
  const int64_t first = FirstChannel(call.attributes);
  Check(stride >= 1 && first >= 0 && channels - first >= x.shape.dim(3), call,
        "stride must be 1 or more, first_channel 0 or more, and from there on channels no fewer "
        "than x has");
  return {{x.dtype,
           {x.shape.dim(0), (x.shape.dim(1) + stride - 1) / stride,
            (x.shape.dim(2) + stride - 1) / stride, channels}}};
}

void SetFirstChannel(graph::Attributes& attributes, int64_t first) {
  if (first != 0) attributes.Set("first_channel", first);
}

void SubsampleGradient(graph::GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  graph::Attributes attributes = {{"stride", ctx.attributes().GetInt("stride")}};
  SetFirstChannel(attributes, FirstChannel(ctx.attributes()));
  SetShape(attributes, g.shape(ctx.input(0)));
  ctx.SetGradient(0, g.Emit1("subsample_backward", {ctx.output_gradient(0)}, attributes));
}

// The attribute "shape" is the shape of x.
std::vector<TensorType> InferSubsampleBackward(const OpCall& call) {
  const TensorType& dy = call.input(0);
  const graph::Shape x = GetShape(call.attributes);
  const int64_t stride = call.attributes.GetInt("stride");
  const int64_t first = FirstChannel(call.attributes);
  Check(graph::IsFloat(dy.dtype) && dy.shape.rank() == 4 && x.rank() == 4 && stride >= 1, call,
        "dy must be floating, [B,H',W',C']");
  Check(dy.shape.dim(0) == x.dim(0) && dy.shape.dim(1) == (x.dim(1) + stride - 1) / stride &&
            dy.shape.dim(2) == (x.dim(2) + stride - 1) / stride && first >= 0 &&
            dy.shape.dim(3) - first >= x.dim(3),
        call, "dy is no subsample of " + x.ToString());
  return {{dy.dtype, x}};
}

const OpRegistration kSubsample({
    .name = "subsample",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferSubsample,
    .gradient = &SubsampleGradient,
    .cost = {},
    .precision = {Precision::kLowStorage, "moves elements"},
    .cheap_to_recompute = true,
});

const OpRegistration kSubsampleBackward({
    .name = "subsample_backward",
    .inputs = {{"dy"}},
    .outputs = {{"dx"}},
    .infer = &InferSubsampleBackward,
    .gradient = {},
    .cost = {},
});

}  // namespace

int64_t FirstChannel(const graph::Attributes& attributes) {
  return attributes.Has("first_channel") ? attributes.GetInt("first_channel") : 0;
}

Value Subsample(graph::Builder& g, Value x, int64_t stride, int64_t channels, std::string_view name,
                int64_t first_channel) {
  graph::Attributes attributes = {{"stride", stride}, {"channels", channels}};
  SetFirstChannel(attributes, first_channel);
  return g.Emit1("subsample", {x}, attributes, name);
}

}  // namespace plimsoll::ops
