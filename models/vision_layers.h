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

// Normalizes each channel over the batch (Ioffe and Szegedy 2015), in training by the batch's own
// statistics, otherwise by running ones. weight starts at 1, bias at 0. States: running_mean,
// running_var (unbiased), which move by `momentum` towards those of each micro-batch, or, with
// groups of samples, once a step towards the mean of all its groups. docs/batch_norm.md has the
// rules. UserError, in training, where a channel has one value alone.
struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
  int64_t group_samples = 0;  // so many samples are normalized together; 0: the whole micro-batch
  bool relu = false;          // negative results become 0
  double slope = 0;           // or, with relu, this part of themselves
  bool frozen = false;        // training uses the running statistics, too, and leaves them alone
  bool moves = true;          // training moves the running statistics
};
graph::Value BatchNorm(Layers& g, std::string_view name, graph::Value x, BatchNormOptions options);

// image_size, channels.
std::vector<Setting> ImageSettings();
// drop_path, of models with residual branches.
Setting DropPathSetting();

// The state "norm_batches", f32[norms]: how many micro-batches each of a model's batch norms has
// seen. Float32 counts to 2^24.
void CountNormBatches(Layers& g, int64_t norms, const BatchNormOptions& options);

}  // namespace plimsoll::models
