#include "ops/norms/batch_norm.h"

#include <algorithm>
#include <utility>

#include "graph/gradient.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/norms/batch_norm_attributes.h"
#include "ops/norms/batch_norm_partials.h"
#include "ops/norms/positive_bits.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Value;

// The type of the statistics of x, by group.
TensorType StatisticType(const OpCall& call, const TensorType& x, int64_t groups) {
  Check(graph::IsFloat(x.dtype) && x.shape.rank() >= 2, call, "x must be floating, [B,...,C]");
  Check(groups >= 1 && x.shape.dim(0) % groups == 0, call, "groups do not divide the samples");
  return {graph::ComputeType(x.dtype), {groups, x.shape.dim(-1)}};
}

// Checks inputs `first` and `first` + 1, which are mean and variance of input 0.
TensorType CheckStatistics(const OpCall& call, size_t first) {
  const TensorType& mean = call.input(first);
  Check(mean.shape.rank() == 2, call, "mean must be [G,C]");
  const TensorType type = StatisticType(call, call.input(0), mean.shape.dim(0));
  Check(mean == type && call.input(first + 1) == type, call,
        "mean and variance must be [G,C] in the compute type of x");
  return type;
}

// The type of weight and bias, and of their gradients.
TensorType ChannelType(const TensorType& x) {
  return {graph::ComputeType(x.dtype), {x.shape.dim(-1)}};
}

std::vector<TensorType> InferStatistics(const OpCall& call) {
  const TensorType statistic = StatisticType(call, call.input(0), call.attributes.GetInt("groups"));
  return {statistic, statistic, statistic};
}

// The gradient of the variance of n values: from its use as the biased variance (result 1) and as
// the unbiased one (result 2).
Value VarianceGradient(GradientContext& context, int64_t n) {
  const Value biased = context.output_gradient(1), unbiased = context.output_gradient(2);
  if (unbiased == graph::kNoTensor) return biased;
  const double factor = static_cast<double>(n) / static_cast<double>(n - 1);
  const Value scaled = Scale(context.builder(), unbiased, factor);
  return biased == graph::kNoTensor ? scaled : Add(context.builder(), biased, scaled);
}

void StatisticsGradient(GradientContext& context) {
  if (!context.wants(0)) return;
  graph::Builder& g = context.builder();
  const int64_t n = g.shape(context.input(0)).rows() / context.attributes().GetInt("groups");
  context.SetGradient(0, g.Emit1("batch_norm_statistics_backward",
                                 {context.input(0), context.output(0), context.output_gradient(0),
                                  VarianceGradient(context, n), context.TakePartial(0)}));
}

std::vector<TensorType> InferStatisticsBackward(const OpCall& call) {
  const TensorType& x = call.input(0);
  const TensorType& mean = call.input(1);
  Check(mean.shape.rank() == 2 && mean == StatisticType(call, x, mean.shape.dim(0)), call,
        "mean must be [G,C] in the compute type of x");
  CheckAbsentOr(call, 2, mean);
  CheckAbsentOr(call, 3, mean);
  CheckAbsentOr(call, 4, x);
  return {x};
}

// The type of one set of statistics; the inputs hold R sets, [R,C].
TensorType MergedType(const OpCall& call) {
  const TensorType& means = call.input(0);
  Check(graph::IsFloat(means.dtype) && means.shape.rank() == 2, call,
        "means must be floating, [R,C]");
  return {means.dtype, {1, means.shape.dim(1)}};
}

std::vector<TensorType> InferMerge(const OpCall& call) {
  const TensorType merged = MergedType(call);
  Check(call.input(1) == call.input(0), call, "variances must be as means");
  const int64_t n = call.attributes.GetInt("n");
  Check(n >= 1 && n * call.input(0).shape.dim(0) > 1, call, "one value has no variance");
  return {merged, merged, merged};
}

void MergeGradient(GradientContext& context) {
  const std::vector<bool> want = {context.wants(0), context.wants(1)};
  if (!want[0] && !want[1]) return;
  graph::Builder& g = context.builder();
  const int64_t n = context.attributes().GetInt("n") * g.shape(context.input(0)).dim(0);
  const std::vector<Value> gradients =
      g.Emit("merge_batch_norm_statistics_backward",
             {context.input(0), context.output(0), context.output_gradient(0),
              VarianceGradient(context, n)},
             {}, "", want);
  for (size_t i = 0; i < 2; ++i) {
    if (want[i]) context.SetGradient(i, gradients[i]);
  }
}

std::vector<TensorType> InferMergeBackward(const OpCall& call) {
  const TensorType merged = MergedType(call);
  Check(call.input(1) == merged, call, "mean must be [1,C]");
  CheckAbsentOr(call, 2, merged);
  CheckAbsentOr(call, 3, merged);
  return {call.input(0), call.input(0)};
}

std::vector<TensorType> InferBatchNorm(const OpCall& call) {
  const TensorType& x = call.input(0);
  CheckStatistics(call, 1);
  Check(call.input(3) == ChannelType(x) && call.input(4) == ChannelType(x), call,
        "weight and bias must be [C] in the compute type of x");
  CheckAbsentOr(call, 5, x);
  const double slope = ReluSlope(call.attributes);
  Check(slope >= 0 && slope < 1, call, "the slope must be in [0, 1)");
  Check(slope == 0 || !call.has_input(5), call, "a leaky ReLU does not come after a residual");
  if (!call.has_input(5)) return {x};
  return {x, PositiveBits(x.shape)};
}

// With a residual, the ReLU's gradient is a separate op, because it is the residual's gradient,
// too.
void BatchNormGradient(GradientContext& context) {
  Value dy = context.output_gradient(0);
  graph::Attributes attributes = context.attributes();
  std::vector<bool> want;
  for (size_t i = 0; i < 5; ++i) want.push_back(context.wants(i));
  const bool of_norm = std::ranges::find(want, true) != want.end();
  if (context.input(5) != graph::kNoTensor && (of_norm || context.wants(5))) {
    if (AppliesRelu(attributes)) {
      dy = context.builder().Emit1("relu_backward", {context.output(0), dy});
      attributes.Set("relu", false);
    }
    if (context.wants(5)) context.SetGradient(5, dy);
  }
  if (!of_norm) return;
  std::vector<Value> arguments = {dy, context.input(0), context.input(1), context.input(2),
                                  context.input(3)};
  for (const size_t i : {0, 3, 4}) {
    arguments.push_back(want[i] ? context.TakePartial(i) : graph::kNoTensor);
  }
  if (AppliesRelu(attributes)) arguments.push_back(context.input(4));
  const std::vector<Value> gradients =
      context.builder().Emit("batch_norm_backward", arguments, attributes, "", want);
  for (size_t i = 0; i < 5; ++i) {
    if (want[i]) context.SetGradient(i, gradients[i]);
  }
}

std::vector<TensorType> InferBatchNormBackward(const OpCall& call) {
  const TensorType& dy = call.input(0);
  const TensorType statistic = CheckStatistics(call, 2);
  Check(call.input(1) == dy, call, "x must be as dy");
  Check(call.input(4) == ChannelType(dy), call, "weight must be [C] in the compute type of x");
  CheckAbsentOr(call, 5, dy);
  CheckAbsentOr(call, 6, ChannelType(dy));
  CheckAbsentOr(call, 7, ChannelType(dy));
  CheckAbsentOr(call, 8, ChannelType(dy));
  Check(call.has_input(8) || !AppliesRelu(call.attributes), call, "relu needs the bias");
  return {dy, statistic, statistic, ChannelType(dy), ChannelType(dy)};
}

std::vector<TensorType> InferResidualBackward(const OpCall& call) {
  const TensorType& dy = call.input(0);
  const TensorType bits = PositiveBits(dy.shape);
  Check(call.input(1) == bits, call, "positive must be " + bits.ToString());
  Check(call.input(2) == dy, call, "x must be as dy");
  CheckStatistics(call, 3);
  Check(call.input(5) == ChannelType(dy), call, "weight must be [C] in the compute type of x");
  CheckAbsentOr(call, 6, dy);
  CheckAbsentOr(call, 7, ChannelType(dy));
  CheckAbsentOr(call, 8, ChannelType(dy));
  return {dy, dy, ChannelType(dy), ChannelType(dy)};
}

const OpRegistration kStatistics({
    .name = "batch_norm_statistics",
    .inputs = {{"x"}},
    .outputs = {{"mean"}, {"variance"}, {"unbiased", true}},
    .infer = &InferStatistics,
    .gradient = &StatisticsGradient,
    .cost = FlopsPerElement(4),
    .precision = {Precision::kLowStorage, "mean and variance are float32 sums"},
});

const OpRegistration kStatisticsBackward({
    .name = "batch_norm_statistics_backward",
    .inputs = {{"x"}, {"mean"}, {"dmean", true}, {"dvariance", true}, {"acc", true}},
    .outputs = {{"dx"}},
    .infer = &InferStatisticsBackward,
    .gradient = {},
    .cost = FlopsPerElement(3),
    .in_place = {{0, 0}, {4, 0}},
});

const OpRegistration kMerge({
    .name = "merge_batch_norm_statistics",
    .inputs = {{"means"}, {"variances"}},
    .outputs = {{"mean"}, {"variance"}, {"unbiased", true}},
    .infer = &InferMerge,
    .gradient = &MergeGradient,
    .cost = FlopsPerElement(5),
    .precision = {Precision::kFloat32, "small differences of means"},
});

const OpRegistration kMergeBackward({
    .name = "merge_batch_norm_statistics_backward",
    .inputs = {{"means"}, {"mean"}, {"dmean", true}, {"dvariance", true}},
    .outputs = {{"dmeans", true}, {"dvariances", true}},
    .infer = &InferMergeBackward,
    .gradient = {},
    .cost = FlopsPerElement(4),
});

const OpRegistration kBatchNorm({
    .name = "batch_norm",
    .inputs = {{"x"}, {"mean"}, {"variance"}, {"weight"}, {"bias"}, {"residual", true}},
    .outputs = {{"y"}, {"positive", true}},
    .infer = &InferBatchNorm,
    .gradient = &BatchNormGradient,
    .cost = FlopsPerElement(3),
    .in_place = {{0, 0}, {5, 0}},
    .precision = {.precision = Precision::kLowStorage,
                  .reason = "computed in float32 with float32 statistics, weight and bias",
                  .float32_inputs = {1, 2, 3, 4}},
    .cheap_to_recompute = true,
    .recompute_preset = "norms",
});

const OpRegistration kBatchNormBackward({
    .name = "batch_norm_backward",
    .inputs = {{"dy"},
               {"x"},
               {"mean"},
               {"variance"},
               {"weight"},
               {"acc_x", true},
               {"acc_weight", true},
               {"acc_bias", true},
               {"bias", true}},
    .outputs =
        {{"dx", true}, {"dmean", true}, {"dvariance", true}, {"dweight", true}, {"dbias", true}},
    .infer = &InferBatchNormBackward,
    .gradient = {},
    .cost = FlopsPerElement(6),
    .in_place = {{0, 0}, {5, 0}, {6, 3}, {7, 4}},
});

const OpRegistration kResidualBackward({
    .name = "batch_norm_residual_backward",
    .inputs = {{"dy"},
               {"positive"},
               {"x"},
               {"mean"},
               {"variance"},
               {"weight"},
               {"acc_x", true},
               {"acc_weight", true},
               {"acc_bias", true}},
    .outputs = {{"dresidual"}, {"dx"}, {"dweight", true}, {"dbias", true}},
    .infer = &InferResidualBackward,
    .gradient = {},
    .cost = FlopsPerElement(7),
    .in_place = {{0, 0}, {6, 1}, {7, 2}, {8, 3}},
});

const CudaWorkspaceRegistration kBatchStatisticsWorkspace(
    "batch_norm_statistics", [](const OpCall& call) {
      return BatchNormSums(call.input(0).shape, call.attributes.GetInt("groups"), 2).bytes();
    });
const CudaWorkspaceRegistration kBatchNormBackwardWorkspace(
    "batch_norm_backward", [](const OpCall& call) {
      return BatchNormSums(call.input(0).shape, call.input(2).shape.dim(0), 2).bytes();
    });
const CudaWorkspaceRegistration kResidualBackwardWorkspace(
    "batch_norm_residual_backward", [](const OpCall& call) {
      return BatchNormSums(call.input(0).shape, call.input(3).shape.dim(0), 2).bytes();
    });

}  // namespace

BatchStatistics BatchNormStatistics(graph::Builder& g, Value x, int64_t groups) {
  const std::vector<Value> statistics =
      g.Emit("batch_norm_statistics", {x}, {{"groups", groups}}, "statistics");
  return {statistics[0], statistics[1], statistics[2]};
}

BatchStatistics MergeBatchNormStatistics(graph::Builder& g, Value means, Value variances, int64_t n,
                                         std::string_view name) {
  const std::vector<Value> merged =
      g.Emit("merge_batch_norm_statistics", {means, variances}, {{"n", n}}, name);
  return {merged[0], merged[1], merged[2]};
}

Value BatchNorm(graph::Builder& g, Value x, const BatchStatistics& statistics, Value weight,
                Value bias, double eps, NormActivation activation, std::string_view name) {
  graph::Attributes attributes = {{"eps", eps}};
  if (activation.relu) attributes.Set("relu", true);
  if (activation.slope != 0) attributes.Set("slope", activation.slope);
  return g.Emit1("batch_norm", {x, statistics.mean, statistics.variance, weight, bias},
                 std::move(attributes), name);
}

}  // namespace plimsoll::ops
