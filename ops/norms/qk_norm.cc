#include "ops/norms/qk_norm.h"

#include <utility>

#include "graph/gradient.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/norms/qk_norm_partials.h"
#include "ops/norms/unit_offset.h"

namespace plimsoll::ops {

using graph::Check;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::Shape;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

Value QkNorm(graph::Builder& g, Value qkv, Value q_weight, Value k_weight,
             const QkNormOptions& options, std::string_view name) {
  graph::Attributes attributes = {
      {"heads", options.heads}, {"kv_heads", options.kv_heads}, {"eps", options.eps}};
  if (options.unit_offset) attributes.Set("unit_offset", true);
  return g.Emit1("qk_norm", {qkv, q_weight, k_weight}, std::move(attributes), name);
}

namespace {

// Checks qkv, q_weight and k_weight, which are inputs 0 to 2. Returns the type of rstd.
TensorType CheckOperands(const OpCall& call) {
  const TensorType& qkv = call.input(0);
  Check(graph::IsFloat(qkv.dtype) && qkv.shape.rank() == 3, call,
        "needs floats qkv[B,T,(H+2G)*hd]");
  const int64_t heads = call.attributes.GetInt("heads");
  const int64_t kv_heads = call.attributes.GetInt("kv_heads");
  Check(heads >= 1 && kv_heads >= 1, call, "needs heads and kv_heads of 1 or more");
  Check(qkv.shape.dim(2) % (heads + 2 * kv_heads) == 0, call, "heads don't divide the width");
  const TensorType weight{qkv.dtype, {qkv.shape.dim(2) / (heads + 2 * kv_heads)}};
  Check(call.input(1) == weight && call.input(2) == weight, call, "weights must be [hd]");
  return {graph::ComputeType(qkv.dtype), qkv.shape.WithLast(heads + kv_heads)};
}

std::vector<TensorType> Infer(const OpCall& call) {
  const TensorType rstd = CheckOperands(call);
  return {call.input(0), rstd};
}

void Gradient(GradientContext& ctx) {
  const std::vector<bool> want = {ctx.wants(0), ctx.wants(1), ctx.wants(2)};
  if (!want[0] && !want[1] && !want[2]) return;
  std::vector<Value> inputs = {ctx.input(0), ctx.input(1), ctx.input(2), ctx.output(1),
                               ctx.output_gradient(0)};
  for (size_t i = 1; i < 3; ++i) inputs.push_back(want[i] ? ctx.TakePartial(i) : graph::kNoTensor);
  const std::vector<Value> gradients =
      ctx.builder().Emit("qk_norm_backward", inputs,
                         Select(ctx.attributes(), {"heads", "kv_heads", "unit_offset"}), "", want);
  for (size_t i = 0; i < 3; ++i) {
    if (want[i]) ctx.SetGradient(i, gradients[i]);
  }
}

std::vector<TensorType> InferBackward(const OpCall& call) {
  const TensorType rstd = CheckOperands(call);
  const TensorType& qkv = call.input(0);
  const TensorType dweight{rstd.dtype, call.input(1).shape};
  Check(call.input(3) == rstd, call, "rstd must be [B,T,H+G]");
  Check(call.input(4) == qkv, call, "dy must be as qkv");
  CheckAbsentOr(call, 5, dweight);
  CheckAbsentOr(call, 6, dweight);
  return {qkv, dweight, dweight};
}

const OpRegistration kQkNorm({
    .name = "qk_norm",
    .inputs = {{"qkv"}, {"q_weight"}, {"k_weight"}},
    .outputs = {{"y"}, {"rstd", true}},
    .infer = &Infer,
    .gradient = &Gradient,
    .cost = FlopsPerElement(4),
    .in_place = {{0, 0}},
    .precision = {Precision::kLowStorage, "the mean square and its sum stay in float32"},
    .sharding = {.follows = ShardingRule::kHeads},
    .cheap_to_recompute = true,
    .recompute_preset = "norms",
});

const OpRegistration kQkNormBackward({
    .name = "qk_norm_backward",
    .inputs = {{"qkv"},
               {"q_weight"},
               {"k_weight"},
               {"rstd"},
               {"dy"},
               {"acc_q_weight", true},
               {"acc_k_weight", true}},
    .outputs = {{"dqkv", true}, {"dq_weight", true}, {"dk_weight", true}},
    .infer = &InferBackward,
    .gradient = {},
    .cost = FlopsPerElement(11),
    .in_place = {{4, 0}, {5, 1}, {6, 2}},
});

const CudaWorkspaceRegistration kQkNormWorkspace("qk_norm_backward", [](const OpCall& call) {
  const int64_t tokens = call.input(0).shape.rows(), heads = call.attributes.GetInt("heads");
  const int64_t sums = int64_t{call.has_output(1)} + int64_t{call.has_output(2)};
  return QkNormPartials(tokens * heads) * sums * call.input(1).shape.elements() *
         static_cast<int64_t>(sizeof(float));
});

}  // namespace
}  // namespace plimsoll::ops
