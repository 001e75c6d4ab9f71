// patches           (x) → y
// patches_backward  (dy) → dx, of height and width h and w
// Both only move elements.
#include "graph/gradient.h"
#include "ops/definition.h"
#include "ops/tokens/tokens.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::GradientContext;
using graph::OpCall;
using graph::Precision;
using graph::TensorType;
using graph::Value;

std::vector<TensorType> InferPatches(const OpCall& call) {
  const TensorType& x = call.input(0);
  Check(graph::IsFloat(x.dtype) && x.shape.rank() == 4, call, "x must be floating, [B,H,W,C]");
  const int64_t p = call.attributes.GetInt("size"), h = x.shape.dim(1), w = x.shape.dim(2);
  Check(p >= 1 && h % p == 0 && w % p == 0, call, "patches must divide height and width");
  return {{x.dtype, {x.shape.dim(0), (h / p) * (w / p), p * p * x.shape.dim(3)}}};
}

std::vector<TensorType> InferPatchesBackward(const OpCall& call) {
  const TensorType& dy = call.input(0);
  Check(graph::IsFloat(dy.dtype) && dy.shape.rank() == 3, call, "dy must be floating, [B,N,P]");
  const int64_t p = call.attributes.GetInt("size");
  const int64_t h = call.attributes.GetInt("h"), w = call.attributes.GetInt("w");
  Check(p >= 1 && h % p == 0 && w % p == 0 && dy.shape.dim(1) == (h / p) * (w / p) &&
            dy.shape.dim(2) % (p * p) == 0,
        call, "dy is not of patches of such an image");
  return {{dy.dtype, {dy.shape.dim(0), h, w, dy.shape.dim(2) / (p * p)}}};
}

void PatchesGradient(GradientContext& ctx) {
  if (!ctx.wants(0)) return;
  graph::Builder& g = ctx.builder();
  const graph::Shape& x = g.shape(ctx.input(0));
  ctx.SetGradient(
      0, g.Emit1("patches_backward", {ctx.output_gradient(0)},
                 {{"size", ctx.attributes().GetInt("size")}, {"h", x.dim(1)}, {"w", x.dim(2)}}));
}

const graph::OpRegistration kPatches({
    .name = "patches",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferPatches,
    .gradient = &PatchesGradient,
    .cost = {},
    .precision = {Precision::kLow, "moves pixels to a product's operand"},
});

const graph::OpRegistration kPatchesBackward({
    .name = "patches_backward",
    .inputs = {{"dy"}},
    .outputs = {{"dx"}},
    .infer = &InferPatchesBackward,
    .gradient = {},
    .cost = {},
});

}  // namespace

Value Patches(graph::Builder& g, Value x, int64_t size, std::string_view name) {
  return g.Emit1("patches", {x}, {{"size", size}}, name);
}

}  // namespace plimsoll::ops
