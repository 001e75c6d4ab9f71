#include "ops/linear/largest_history.h"

#include <utility>
#include <vector>

#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::kNoTensor;
using graph::OpCall;
using graph::TensorType;

std::vector<TensorType> InferCommitLargest(const OpCall& call) {
  const TensorType &expected = call.input(0), &history = call.input(2);
  Check(expected.dtype == DType::kFloat32 && expected.shape.rank() == 1, call,
        "needs expected f32[N]");
  Check(call.input(1) == expected, call, "pending must have the type of expected");
  Check(history.dtype == DType::kFloat32 && history.shape.rank() == 2 &&
            history.shape.dim(0) >= 1 && history.shape.dim(1) == expected.shape.dim(0),
        call, "needs history f32[W,N]");
  Check(call.input(3) == TensorType{DType::kInt32, {}}, call, "needs count i32[]");
  CheckAbsentOr(call, 4, {DType::kInt32, {}});
  Check(call.attributes.GetReal("margin") > 0, call, "margin must be above 0");
  return {expected, history};
}

const graph::OpRegistration kCommitLargest({
    .name = "commit_largest",
    .inputs = {{"expected"}, {"pending"}, {"history"}, {"count"}, {"apply", true}},
    .outputs = {{"expected"}, {"history"}},
    .infer = &InferCommitLargest,
    .gradient = {},
    .cost = FlopsPerElement(1),
    .in_place = {{0, 0}, {2, 1}},
});

}  // namespace

void CommitLargest(graph::Builder& g, graph::Value expected, graph::Value pending,
                   graph::Value history, graph::Value count, graph::Value apply, double margin) {
  std::vector<graph::Value> inputs = {expected, pending, history, count};
  if (apply != kNoTensor) inputs.push_back(apply);
  g.EmitInto({expected, history}, "commit_largest", std::move(inputs), {{"margin", margin}});
}

}  // namespace plimsoll::ops
