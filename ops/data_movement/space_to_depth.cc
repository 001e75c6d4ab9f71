#include "ops/data_movement/space_to_depth.h"

#include <vector>

#include "graph/gradient.h"
#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::Check;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::Shape;
using graph::TensorType;
using graph::Value;

// Throws unless images of shape `x` and the images `y` of their blocks fit each other.
void CheckBlocks(const OpCall& call, const Shape& x, const Shape& y) {
  const int64_t block = call.attributes.GetInt("block");
  Check(block >= 1 && call.attributes.GetInt("pad_h") >= 0 && call.attributes.GetInt("pad_w") >= 0,
        call, "block must be 1 or more, pad_h and pad_w 0 or more");
  Check(x.dim(3) >= 1 && y.dim(3) >= block * block * x.dim(3), call,
        "channels must be no fewer than a block of x has");
  // Kernels count elements within rows and columns in 32 bits.
  constexpr int64_t kLimit = int64_t{1} << 30;
  const int64_t bottom = x.dim(1) + call.attributes.GetInt("pad_h") + block;
  const int64_t right = x.dim(2) + call.attributes.GetInt("pad_w") + block;
  Check(bottom < kLimit && y.dim(1) * block < kLimit && right * x.dim(3) < kLimit &&
            y.dim(2) * y.dim(3) < kLimit,
        call, "rows and columns must have fewer than 2^30 elements");
}

std::vector<TensorType> InferSpaceToDepth(const OpCall& call) {
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() == 4, call, "x must be floating, [B,H,W,C]");
  const int64_t height = call.attributes.GetInt("height"), width = call.attributes.GetInt("width"),
                channels = call.attributes.GetInt("channels");
  Check(height >= 1 && width >= 1 && channels >= 1, call,
        "height, width and channels must be 1 or more");
  const Shape y = {x.shape.dim(0), height, width, channels};
  CheckBlocks(call, x.shape, y);
  return {{x.dtype, y}};
}

void SpaceToDepthGradient(graph::GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  Attributes attributes = Select(ctx.attributes(), {"block", "pad_h", "pad_w"});
  SetShape(attributes, g.shape(ctx.input(0)));
  ctx.SetGradient(0, g.Emit1("space_to_depth_backward", {ctx.output_gradient(0)}, attributes));
}

// The attribute "shape" is the shape of x.
std::vector<TensorType> InferSpaceToDepthBackward(const OpCall& call) {
  const TensorType& dy = call.input(0);
  const Shape x = GetShape(call.attributes);
  Check(graph::IsFloat(dy.dtype) && dy.shape.rank() == 4, call,
        "dy must be floating, [B,H',W',C']");
  Check(x.rank() == 4 && dy.shape.dim(0) == x.dim(0), call,
        "dy has not as many images as " + x.ToString());
  CheckBlocks(call, x, dy.shape);
  return {{dy.dtype, x}};
}

const OpRegistration kSpaceToDepth({
    .name = "space_to_depth",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferSpaceToDepth,
    .gradient = &SpaceToDepthGradient,
    .cost = {},
    .precision = {Precision::kLowStorage, "moves elements"},
    .cheap_to_recompute = true,
});

const OpRegistration kSpaceToDepthBackward({
    .name = "space_to_depth_backward",
    .inputs = {{"dy"}},
    .outputs = {{"dx"}},
    .infer = &InferSpaceToDepthBackward,
    .gradient = {},
    .cost = {},
});

}  // namespace

Value SpaceToDepth(graph::Builder& g, Value x, const DepthBlocks& blocks, std::string_view name) {
  const Attributes attributes = {{"block", blocks.block},   {"pad_h", blocks.pad[0]},
                                 {"pad_w", blocks.pad[1]},  {"height", blocks.size[0]},
                                 {"width", blocks.size[1]}, {"channels", blocks.channels}};
  return g.Emit1("space_to_depth", {x}, attributes, name);
}

}  // namespace plimsoll::ops
