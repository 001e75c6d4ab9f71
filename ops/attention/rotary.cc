#include "ops/attention/rotary.h"

#include "graph/gradient.h"
#include "graph/op.h"
#include "ops/definition.h"

namespace plimsoll::ops {

using graph::Attributes;
using graph::Check;
using graph::kNoTensor;
using graph::OpCall;
using graph::Precision;
using graph::Shape;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

namespace {

std::vector<Value> Inputs(Value qkv, Value first, Value positions) {
  std::vector<Value> inputs = {qkv};
  if (first != kNoTensor || positions != kNoTensor) inputs.push_back(first);
  if (positions != kNoTensor) inputs.push_back(positions);
  return inputs;
}

}  // namespace

Value Rotary(graph::Builder& g, Value qkv, const RotaryOptions& options, Value positions,
             std::string_view name) {
  Attributes attributes{{"heads", options.heads},
                        {"kv_heads", options.kv_heads},
                        {"theta", options.theta},
                        {"inverse", false}};
  if (options.scaling) {
    attributes.Set("factor", options.scaling->factor);
  }
  if (options.scaling && options.scaling->kind == RotaryScaling::Kind::kLlama3) {
    attributes.Set("low_freq_factor", options.scaling->low_freq_factor);
    attributes.Set("high_freq_factor", options.scaling->high_freq_factor);
    attributes.Set("original_sequence", options.scaling->original_sequence);
  }
  return g.Emit1("rotary", Inputs(qkv, kNoTensor, positions), std::move(attributes), name);
}

namespace {

std::vector<TensorType> InferRotary(const OpCall& call) {
  const TensorType& qkv = call.input(0);
  Check(graph::IsFloat(qkv.dtype), call, "needs floats");
  Check(qkv.shape.rank() == 3, call, "needs qkv[B,T,(H+2G)*hd]");
  const int64_t heads = call.attributes.GetInt("heads");
  const int64_t kv_heads = call.attributes.GetInt("kv_heads");
  Check(heads >= 1 && kv_heads >= 1, call, "needs heads and kv_heads of 1 or more");
  Check(qkv.shape.dim(2) % (heads + 2 * kv_heads) == 0, call, "heads don't divide the width");
  Check(qkv.shape.dim(2) / (heads + 2 * kv_heads) % 2 == 0, call, "the head width is odd");
  CheckAbsentOr(call, 1, {graph::DType::kInt32, {1}});
  CheckAbsentOr(call, 2, {graph::DType::kInt32, qkv.shape.DropLast()});
  Check(!call.has_input(1) || !call.has_input(2), call, "needs first or positions, not both");
  return WithLargest(call, {qkv});
}

const graph::OpRegistration kRotary({
    .name = "rotary",
    .inputs = {{"qkv"}, {"first", true}, {"positions", true}},
    .outputs = {{"rotated"}, {"largest", true}},
    .infer = InferRotary,
    .gradient =
        [](graph::GradientContext& context) {
          if (!context.wants(0)) return;
          Attributes attributes = context.attributes();
          attributes.Set("inverse", !attributes.GetBool("inverse"));
          context.SetGradient(0, context.builder().Emit1("rotary",
                                                         Inputs(context.output_gradient(0),
                                                                context.input(1), context.input(2)),
                                                         std::move(attributes)));
        },
    .cost =
        [](const OpCall& call) {
          const TensorType& qkv = call.input(0);
          return graph::Cost{3.0 * qkv.shape.elements(), 2.0 * qkv.bytes()};
        },
    .in_place = {{0, 0}},
    .precision = {Precision::kLowStorage, "angles and rotation in float32, rounded once"},
    .sharding = {.follows = ShardingRule::kHeads},
    .continuation = {.position = 1},
    .cheap_to_recompute = true,
    .finds_largest = {0},
});

}  // namespace
}  // namespace plimsoll::ops
