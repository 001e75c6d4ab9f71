#include "ops/data_movement/copy.h"

#include "graph/op.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Transfer;
using graph::Value;

std::vector<TensorType> InferStart(const OpCall& call) { return {call.input(0)}; }

std::vector<TensorType> InferDone(const OpCall& call) {
  graph::Check(call.input(0) == call.input(1), call, "source and copy must be of one type");
  return {call.input(0)};
}

const OpRegistration kStart({
    .name = "copy_start",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &InferStart,
    .gradient = {},
    .cost = {},
    .precision = {Precision::kAsInput, "moves bytes"},
    .transfer = Transfer::kCopyStart,
});

const OpRegistration kDone({
    .name = "copy_done",
    .inputs = {{"y"}, {"x"}},
    .outputs = {{"done"}},
    .infer = &InferDone,
    .gradient = {},
    .cost = {},
    .view = true,
    .precision = {Precision::kAsInput, "moves bytes"},
    .transfer = Transfer::kCopyDone,
});

}  // namespace

Value CopyStart(graph::Builder& g, Value x, graph::Place to, std::string_view name) {
  const Value y = g.Emit1("copy_start", {x}, {}, name);
  g.program().mutable_tensor(y).place = to;
  return y;
}

Value CopyDone(graph::Builder& g, Value y, Value x, std::string_view name) {
  return g.Emit1("copy_done", {y, x}, {}, name);
}

}  // namespace plimsoll::ops
