// Layers of vision models (models/layers.h has the conventions). Images and features are
// channels-last: B batch, H height, W width, C channels.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "models/layers.h"

namespace plimsoll::models {

// The input "images", f32[B,H,W,C].
graph::Value Images(Layers& g, int64_t height, int64_t width, int64_t channels);

// A convolution x[B,H,W,I] → [B,H',W',outputs] with a square kernel, padded by "same" as if the
// stride were 1. The weight is initialised normally with variance 2 / (kernel² · outputs) (He et
// al. 2015, section 2.2).
struct ConvOptions {
  int64_t kernel = 3;
  int64_t stride = 1;
};
graph::Value Conv(Layers& g, std::string_view name, graph::Value x, int64_t outputs,
                  ConvOptions options);

// Normalizes each channel over the batch (Ioffe and Szegedy 2015): in training by the batch's own
// statistics, otherwise by running ones. The weight starts at 1, the bias at 0. The states
// running_mean and running_var (unbiased) move by `momentum` towards the statistics of each
// micro-batch or, with groups of samples, once a step towards the mean of all its groups.
// docs/batch_norm.md has the rules. In training, throws a UserError if a channel has only one
// value.
struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
  // How many samples are normalized together; 0: the complete micro-batch.
  int64_t group_samples = 0;
  bool relu = false;    // negative results become 0
  double slope = 0;     // with relu: negative results are multiplied by this instead
  bool frozen = false;  // training uses the running statistics and does not update them
  bool moves = true;    // training updates the running statistics
};
graph::Value BatchNorm(Layers& g, std::string_view name, graph::Value x, BatchNormOptions options);

// The settings image_size and channels.
std::vector<Setting> ImageSettings();
// The setting drop_path, for models with residual branches.
Setting DropPathSetting();

// The state "norm_batches", f32[norms]: how many micro-batches each of a model's batch norms has
// processed. Float32 counts exactly up to 2^24.
void CountNormBatches(Layers& g, int64_t norms, const BatchNormOptions& options);

}  // namespace plimsoll::models
