#include <vector>

#include "base/error.h"
#include "graph/gradient.h"
#include "ops/definition.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/norms.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::TensorType;
using graph::Value;

TensorType ChannelStatistics(const OpCall& call) {
  const TensorType& means = call.input(0);
  const int64_t groups = call.attributes.GetInt("groups");
  Check(graph::IsFloat(means.dtype) && means.shape.rank() == 2, call,
        "means must be floating, [B,C]");
  Check(groups >= 1 && means.shape.dim(1) % groups == 0, call, "groups do not divide the channels");
  return means;
}

std::vector<TensorType> InferMergeChannels(const OpCall& call) {
  const TensorType type = ChannelStatistics(call);
  Check(call.input(1) == type, call, "variances must be as means");
  return {type, type};
}

void MergeChannelsGradient(graph::GradientContext& context) {
  const std::vector<bool> want = {context.wants(0), context.wants(1)};
  if (!want[0] && !want[1]) return;
  const std::vector<Value> gradients = context.builder().Emit(
      "merge_channel_statistics_backward",
      {context.input(0), context.output(0), context.output_gradient(0), context.output_gradient(1)},
      context.attributes(), "", want);
  for (size_t i = 0; i < 2; ++i) {
    if (want[i]) context.SetGradient(i, gradients[i]);
  }
}

std::vector<TensorType> InferMergeChannelsBackward(const OpCall& call) {
  const TensorType type = ChannelStatistics(call);
  Check(call.input(1) == type, call, "mean must be as means");
  CheckAbsentOr(call, 2, type);
  CheckAbsentOr(call, 3, type);
  return {type, type};
}

const OpRegistration kMergeChannels({
    .name = "merge_channel_statistics",
    .inputs = {{"means"}, {"variances"}},
    .outputs = {{"mean"}, {"variance"}},
    .infer = &InferMergeChannels,
    .gradient = &MergeChannelsGradient,
    .cost = FlopsPerElement(5),
    .precision = {Precision::kFloat32, "small differences of means"},
});

const OpRegistration kMergeChannelsBackward({
    .name = "merge_channel_statistics_backward",
    .inputs = {{"means"}, {"mean"}, {"dmean", true}, {"dvariance", true}},
    .outputs = {{"dmeans", true}, {"dvariances", true}},
    .infer = &InferMergeChannelsBackward,
    .gradient = {},
    .cost = FlopsPerElement(6),
});

}  // namespace

Value GroupNorm(graph::Builder& g, Value x, int64_t groups, Value weight, Value bias, double eps,
                std::string_view name) {
  const BatchStatistics of_channels = BatchNormStatistics(g, x, g.shape(x).dim(0));
  const std::vector<Value> merged =
      g.Emit("merge_channel_statistics", {of_channels.mean, of_channels.variance},
             {{"groups", groups}}, "group_statistics");
  return BatchNorm(g, x, {.mean = merged[0], .variance = merged[1]}, weight, bias, eps, {}, name);
}

Value InstanceNorm(graph::Builder& g, Value x, Value weight, Value bias, double eps,
                   NormActivation activation, std::string_view name) {
  const graph::Shape& shape = g.shape(x);
  if (shape.rows() <= shape.dim(0)) {
    throw InternalError("an instance norm of single pixels: they have no variance");
  }
  const BatchStatistics of_samples = BatchNormStatistics(g, x, shape.dim(0));
  return BatchNorm(g, x, of_samples, weight, bias, eps, activation, name);
}

}  // namespace plimsoll::ops
