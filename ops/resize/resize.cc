#include "ops/resize/resize.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/gradient.h"
#include "ops/definition.h"
#include "ops/resize/resize_axis.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::Check;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::Shape;
using graph::TensorType;
using graph::Value;

// Sets the attributes "d", "h" and "w" to the size of the result, y or dx. Images have no "d".
void SetSize(Attributes& attributes, std::span<const int64_t> size) {
  constexpr std::array kNames = {"d", "h", "w"};
  if (size.size() > kNames.size()) throw InternalError("resize: a size has 2 or 3 dimensions");
  for (size_t i = 0; i < size.size(); ++i) {
    attributes.Set(kNames[kNames.size() - size.size() + i], size[i]);
  }
}

// The size of an image or volume, without batch and channels.
std::span<const int64_t> SizeOf(const Shape& shape) {
  return shape.dims().subspan(1, static_cast<size_t>(shape.rank()) - 2);
}

void CheckSizes(const OpCall& call, const Shape& shape) {
  constexpr int64_t kMostElements = (int64_t{1} << 31) - 1;
  int64_t elements = std::max<int64_t>(1, shape.dim(-1));
  for (const int64_t size : SizeOf(shape)) {
    Check(size >= 1 && size <= kMostResizeSize, call, "each dimension must have 1 to 2^15 pixels");
    Check(elements <= kMostElements / size, call, "an image must have fewer than 2^31 elements");
    elements *= size;
  }
}

// Infers the result of a forward or a backward op: it has the type of input 0, except for its size.
std::vector<TensorType> InferResize(const OpCall& call) {
  const TensorType& from = call.input(0);
  Check(graph::IsFloat(from.dtype) && (from.shape.rank() == 4 || from.shape.rank() == 5), call,
        "needs images [B,H,W,C] or volumes [B,D,H,W,C], floating");
  const std::string& mode = call.attributes.GetWord("mode");
  const bool align_corners = call.attributes.GetBool("align_corners");
  Check(mode == "nearest" || mode == "linear", call, "the mode must be nearest or linear");
  Check(mode == "linear" || !align_corners, call, "only linear interpolation aligns corners");
  const bool volumes = from.shape.rank() == 5;
  Check(call.attributes.Has("d") == volumes, call, "a volume has a depth, an image has none");
  std::vector<int64_t> to = {from.shape.dim(0)};
  if (volumes) to.push_back(call.attributes.GetInt("d"));
  to.insert(to.end(),
            {call.attributes.GetInt("h"), call.attributes.GetInt("w"), from.shape.dim(-1)});
  const TensorType result{from.dtype, Shape(to)};
  CheckSizes(call, from.shape);
  CheckSizes(call, result.shape);
  return {result};
}

// The cost: a multiplication and an addition for each pixel that a pixel of y reads.
graph::Cost CostOfReading(const OpCall& call, const Shape& y) {
  const bool linear = call.attributes.GetWord("mode") == "linear";
  const double reads = linear ? static_cast<double>(1 << SizeOf(y).size()) : 1;
  return {2 * reads * static_cast<double>(y.elements()), ArgumentBytes(call)};
}

graph::Cost ResizeCost(const OpCall& call) {
  return CostOfReading(call, InferResize(call)[0].shape);
}

graph::Cost ResizeBackwardCost(const OpCall& call) {
  return CostOfReading(call, call.input(0).shape);
}

void ResizeGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  Attributes attributes = Select(ctx.attributes(), {"mode", "align_corners"});
  SetSize(attributes, SizeOf(g.shape(ctx.input(0))));
  ctx.SetGradient(0, g.Emit1("resize_backward", {ctx.output_gradient(0)}, attributes));
}

const OpRegistration kResize({
    .name = "resize",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferResize,
    .gradient = &ResizeGradient,
    .cost = &ResizeCost,
    .precision = {Precision::kLowStorage, "interpolates in float32, rounded once"},
    .cheap_to_recompute = true,
});

const OpRegistration kResizeBackward({
    .name = "resize_backward",
    .inputs = {{"dy"}},
    .outputs = {{"dx"}},
    .infer = &InferResize,
    .gradient = {},
    .cost = &ResizeBackwardCost,
});

}  // namespace

Attributes ResizeAttributes(std::span<const int64_t> size, const ResizeOptions& options) {
  Attributes attributes = {
      {"mode", std::string(options.mode == ResizeMode::kLinear ? "linear" : "nearest")},
      {"align_corners", options.align_corners}};
  SetSize(attributes, size);
  return attributes;
}

Value Resize(graph::Builder& g, Value x, std::span<const int64_t> size,
             const ResizeOptions& options, std::string_view name) {
  return g.Emit1("resize", {x}, ResizeAttributes(size, options), name);
}

}  // namespace plimsoll::ops
