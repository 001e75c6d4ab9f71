#include "ops/loss/confusion.h"

#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::OpCall;
using graph::Shape;
using graph::TensorType;

std::vector<TensorType> Infer(const OpCall& call) {
  const TensorType logits = LikeFloatInput0(call)[0];
  graph::Check(call.input(1) == TensorType{DType::kInt32, logits.shape.DropLast()}, call,
               "'labels' must be i32 for each row of logits");
  const int64_t classes = logits.shape.dim(-1);
  return {{DType::kInt32, {classes, classes}}, {DType::kInt32, {}}, {DType::kInt32, {}}};
}

// The op is for metrics, which have no gradient, so it needs no gradient rule.
const graph::OpRegistration kConfusion({
    .name = "confusion",
    .inputs = {{"logits"}, {"labels"}},
    .outputs = {{"counts"}, {"right"}, {"rows"}},
    .infer = &Infer,
    .gradient = {},
    .cost = FlopsPerElement(1),
    .precision = {graph::Precision::kAsInput, "compares"},
});

}  // namespace

Confusion Confuse(graph::Builder& g, graph::Value logits, graph::Value labels,
                  std::string_view name) {
  const std::vector<graph::Value> outputs = g.Emit("confusion", {logits, labels}, {}, name);
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace plimsoll::ops
