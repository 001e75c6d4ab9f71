// Layers of models that see images (models/layers.h has the habits). Images and what becomes of
// them lie with their channels last: B batch, H height, W width, C channels.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "models/layers.h"

namespace plimsoll::models {

// The input "images", f32[B,H,W,C].
graph::Value Images(Layers& g, int64_t height, int64_t width, int64_t channels);

// x[B,H,W,I] → [B,H',W',outputs] by a square kernel; "same" padding, as if the stride were 1. The
// weight starts normal with variance 2 / (kernel² · outputs) (He et al. 2015, section 2.2).
struct ConvOptions {
  int64_t kernel = 3;
  int64_t stride = 1;
};
graph::Value Conv(Layers& g, std::string_view name, graph::Value x, int64_t outputs,
                  ConvOptions options);

// Normalizes each channel over the batch, in training by the batch's own statistics, otherwise by
// running ones. weight starts at 1, bias at 0. States: running_mean, running_var (unbiased), which
// move by `momentum` each micro-step.
struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
};
graph::Value BatchNorm(Layers& g, std::string_view name, graph::Value x,
                       BatchNormOptions options = {});

// image_size, channels.
std::vector<Setting> ImageSettings();

}  // namespace plimsoll::models
