#include "ops/collective.h"

#include "base/error.h"
#include "graph/op.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;
using graph::OpRegistration;
using graph::TensorType;

std::vector<TensorType> InferStart(const OpCall& call) {
  AxisOf(call.attributes);
  return {call.input(0)};
}

std::vector<TensorType> InferDone(const OpCall& call) { return {call.input(0)}; }

const OpRegistration kStart({
    .name = "all_reduce_start",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferStart,
    .gradient = {},
    .cost = {},
    .in_place = {{0, 0}},
});

const OpRegistration kDone({
    .name = "all_reduce_done",
    .inputs = {{"y"}},
    .outputs = {{"sum"}},
    .infer = &InferDone,
    .gradient = {},
    .cost = {},
    .view = true,
});

}  // namespace

std::string_view Name(Axis axis) { return axis == Axis::kData ? "data" : "tensor"; }

Axis AxisOf(const graph::Attributes& attributes) {
  const std::string& name = attributes.GetWord("axis");
  for (const Axis axis : {Axis::kData, Axis::kTensor}) {
    if (Name(axis) == name) return axis;
  }
  throw InternalError("no axis '" + name + "' of ranks");
}

}  // namespace plimsoll::ops
