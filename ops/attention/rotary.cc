#include "ops/attention/rotary.h"

#include <string>
#include <vector>

#include "graph/gradient.h"
#include "graph/op.h"
#include "ops/attention/rotary_frequencies.h"
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

void SetRotaryScaling(const RotaryScaling& scaling, Attributes& attributes) {
  using Kind = RotaryScaling::Kind;
  if (scaling.kind == Kind::kByPair) {
    attributes.Set("stretch", StretchWord(scaling.stretch));
  } else {
    attributes.Set("factor", scaling.factor);
  }
  if (scaling.kind == Kind::kLlama3) {
    attributes.Set("low_freq_factor", scaling.low_freq_factor);
    attributes.Set("high_freq_factor", scaling.high_freq_factor);
    attributes.Set("original_sequence", scaling.original_sequence);
  }
  if (scaling.kind == Kind::kYarn) {
    attributes.Set("beta_fast", scaling.beta_fast);
    attributes.Set("beta_slow", scaling.beta_slow);
    attributes.Set("truncate", scaling.truncate);
    attributes.Set("original_sequence", scaling.original_sequence);
  }
  if (scaling.attention_factor != 1) {
    attributes.Set("attention_factor", scaling.attention_factor);
  }
}

}  // namespace

Value Rotary(graph::Builder& g, Value qkv, const RotaryOptions& options, Value positions,
             std::string_view name) {
  Attributes attributes{{"heads", options.heads},
                        {"kv_heads", options.kv_heads},
                        {"theta", options.theta},
                        {"inverse", false}};
  if (options.rotary_width != 0) attributes.Set("rotary_width", options.rotary_width);
  if (options.scaling) SetRotaryScaling(*options.scaling, attributes);
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
  const int64_t head = qkv.shape.dim(2) / (heads + 2 * kv_heads);
  const int64_t turned = RotaryWidth(call.attributes, head);
  Check(turned >= 2 && turned <= head, call, "needs a rotary_width from 2 to the head width");
  Check(turned % 2 == 0, call, "the rotary width is odd");
  if (call.attributes.Has("stretch")) {
    Check(StretchCount(call.attributes.GetWord("stretch")) == turned / 2, call,
          "needs a factor of stretch for each pair of a head");
  }
  Check(RotaryScale(call.attributes) > 0, call, "needs an attention_factor above 0");
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
