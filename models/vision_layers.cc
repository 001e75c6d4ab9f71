#include "models/vision_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/convolution/conv.h"
#include "ops/data_movement/views.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/norms/batch_norm.h"
#include "ops/optimizer/model_state.h"

namespace plimsoll::models {

using graph::DType;
using graph::OverMicroSteps;
using graph::OverRanks;
using graph::Scope;
using graph::Value;

Value Images(Layers& g, int64_t height, int64_t width, int64_t channels) {
  return g.Input("images", DType::kFloat32, {g.batch().batch, height, width, channels});
}

Value Conv(Layers& g, std::string_view name, Value x, int64_t outputs, ConvOptions options) {
  const int64_t kernel = options.kernel, pad = (kernel - 1) / 2;
  Value weight;
  {
    const Scope scope(g.builder(), name);
    const double fan_out = static_cast<double>(kernel * kernel * outputs);
    weight = g.Parameter("weight", {outputs, kernel, kernel, g.shape(x).dim(-1)},
                         {Initializer::kNormal, std::sqrt(2 / fan_out)});
  }
  return ops::Conv(g.builder(), x, weight, graph::kNoTensor,
                   {.stride = {1, options.stride, options.stride}, .pad = {0, pad, pad}}, name);
}

namespace {

// Declares a running statistic and updates it towards `measured`, [G,C], unless that is kNoTensor.
Value RunningStatistic(Layers& g, const char* name, int64_t channels, float initial,
                       const BatchNormOptions& options, Value measured) {
  const bool groups = options.group_samples > 0;
  const Value running =
      g.State({.name = name,
               .shape = {channels},
               .initial = initial,
               .merge = groups ? graph::Merge{OverMicroSteps::kMean, OverRanks::kMean}
                               : graph::Merge{OverMicroSteps::kLast, OverRanks::kFirst}});
  if (measured == graph::kNoTensor) return running;
  g.UpdateState(running, [&](Value now) {
    return ops::MovingAverage(g.builder(), now, measured, options.momentum);
  });
  return running;
}

// The statistics of the batch; each channel and group must have more than one value.
ops::BatchStatistics StatisticsOfBatch(Layers& g, Value x, const BatchNormOptions& options) {
  const int64_t batch = g.shape(x).dim(0);
  const int64_t groups = options.group_samples > 0 ? batch / options.group_samples : 1;
  if (g.shape(x).rows() > std::max<int64_t>(1, groups)) {
    return ops::BatchNormStatistics(g.builder(), x, groups);
  }
  throw UserError(fmt::format(
      "the batch norm '{}' would see one value in each channel, which has no variance: {}, or "
      "take larger images",
      g.builder().scope(),
      options.group_samples > 0 ? "raise model.norm_samples" : "raise train.micro_batch"));
}

}  // namespace

Value BatchNorm(Layers& g, std::string_view name, Value x, BatchNormOptions options) {
  const int64_t channels = g.shape(x).dim(-1);
  graph::Builder& builder = g.builder();
  const bool measures = g.training() && !options.frozen;
  const bool moves = g.training() && options.moves;
  ops::BatchStatistics statistics;
  Value weight, bias;
  {
    const Scope scope(builder, name);
    weight = g.Parameter("weight", {channels}, {Initializer::kOnes});
    bias = g.Parameter("bias", {channels}, {Initializer::kZeros});
    if (measures) statistics = StatisticsOfBatch(g, x, options);
    const auto running = [&](const char* statistic, float initial, Value measured) {
      return RunningStatistic(g, statistic, channels, initial, options,
                              moves ? measured : graph::kNoTensor);
    };
    const Value mean = running("running_mean", 0, statistics.mean);
    const Value variance = running("running_var", 1, statistics.unbiased);
    if (!measures) {
      statistics.mean = ops::View(builder, mean, {1, channels});
      statistics.variance = ops::View(builder, variance, {1, channels});
    }
  }
  return ops::BatchNorm(builder, x, statistics, weight, bias, options.eps,
                        {.relu = options.relu, .slope = options.slope}, name);
}

void CountNormBatches(Layers& g, int64_t norms, const BatchNormOptions& options) {
  const Value batches =
      g.State({.name = "norm_batches", .shape = {norms}, .merge = {.ranks = OverRanks::kSame}});
  g.UpdateState(batches, [&](Value count) {
    if (options.frozen) return count;
    const Value one = ops::Constant(g.builder(), {DType::kFloat32, {norms}}, 1);
    return ops::AddToState(g.builder(), count, one);
  });
}

Setting DropPathSetting() {
  return {.name = "drop_path",
          .type = Setting::Type::kFloat,
          .doc =
              "Probability with which training leaves out the last block's branches, drawn for "
              "each sample; earlier blocks have less, the first none (stochastic depth).",
          .default_value = 0.0,
          .min = 0,
          .max = 1,
          .below_max = true,
          .with_loaded_weights = Setting::WithLoadedWeights::kYes};
}

std::vector<Setting> ImageSettings() {
  return {{.name = "image_size",
           .doc = "Height and width of the images, in pixels.",
           .required = "give the images' height and width",
           .min = 1,
           .max = 1e5,
           .with_loaded_weights = Setting::WithLoadedWeights::kYes},
          {.name = "channels",
           .doc = "Channels of the images.",
           .default_value = int64_t{3},
           .min = 1,
           .max = 1e5}};
}

}  // namespace plimsoll::models
