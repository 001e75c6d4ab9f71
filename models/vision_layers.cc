#include "models/vision_layers.h"

#include <cmath>

#include "ops/convolution/conv.h"
#include "ops/norms/batch_norm.h"
#include "ops/optimizer/model_state.h"
#include "ops/views.h"

namespace plimsoll::models {

using graph::DType;
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

Value BatchNorm(Layers& g, std::string_view name, Value x, BatchNormOptions options) {
  const int64_t channels = g.shape(x).dim(-1);
  graph::Builder& builder = g.builder();
  Value weight, bias;
  ops::BatchStatistics statistics;
  {
    const Scope scope(builder, name);
    weight = g.Parameter("weight", {channels}, {Initializer::kOnes});
    bias = g.Parameter("bias", {channels}, {Initializer::kZeros});
    const Value running_mean = g.State({.name = "running_mean", .shape = {channels}});
    const Value running_var =
        g.State({.name = "running_var", .shape = {channels}, .initial = 1.0f});
    if (g.training()) {
      statistics = ops::BatchNormStatistics(builder, x);
      const auto n = static_cast<double>(g.shape(x).rows());
      g.UpdateState(running_mean, [&](Value running) {
        return ops::MovingAverage(builder, running, ops::View(builder, statistics.mean, {channels}),
                                  options.momentum);
      });
      g.UpdateState(running_var, [&](Value running) {
        return ops::MovingAverage(builder, running,
                                  ops::View(builder, statistics.variance, {channels}),
                                  options.momentum, n / (n - 1));
      });
    } else {
      statistics = {ops::View(builder, running_mean, {1, channels}),
                    ops::View(builder, running_var, {1, channels})};
    }
  }
  return ops::BatchNorm(builder, x, statistics, weight, bias, options.eps, name);
}

std::vector<Setting> ImageSettings() {
  return {{.name = "image_size",
           .doc = "Height and width of the images, in pixels.",
           .required = "give the images' height and width",
           .min = 1,
           .max = 1e5},
          {.name = "channels",
           .doc = "Channels of the images.",
           .default_value = int64_t{3},
           .min = 1,
           .max = 1e5}};
}

}  // namespace plimsoll::models
