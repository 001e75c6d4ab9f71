#include <vector>

#include "ops/definition.h"
#include "ops/loss/confusion.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::OpCall;
using graph::TensorType;

std::vector<TensorType> InferLabelCounts(const OpCall& call) {
  const TensorType logits = LikeFloatInput0(call)[0];
  graph::Check(logits.shape.rank() >= 1, call, "logits must be [...,C]");
  graph::Check(call.input(1) == TensorType{DType::kFloat32, logits.shape}, call,
               "targets must be f32, one for each logit");
  return {{DType::kInt32, {}}, {DType::kInt32, {}}, {DType::kInt32, {logits.shape.dim(-1), 4}}};
}

const graph::OpRegistration kCountLabels({
    .name = "count_labels",
    .inputs = {{"logits"}, {"targets"}},
    .outputs = {{"right"}, {"rows"}, {"counts", true}},
    .infer = &InferLabelCounts,
    .gradient = {},
    .cost = FlopsPerElement(4),
    .precision = {graph::Precision::kAsInput, "compares"},
});

}  // namespace

LabelCounts CountLabels(graph::Builder& g, graph::Value logits, graph::Value targets,
                        std::string_view name) {
  const std::vector<graph::Value> results = g.Emit("count_labels", {logits, targets}, {}, name);
  return {results[0], results[1], results[2]};
}

}  // namespace plimsoll::ops
