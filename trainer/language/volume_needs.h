// The host memory that the prediction of a volume takes, known from the headers of its files, so
// that a prediction that needs more than memory.host_budget is refused before it begins.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/volumes/volume_files.h"
#include "data/volumes/volume_slots.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// How a model predicts volumes.
struct WindowOptions {
  data::PatchShape patch;
  int64_t classes = 0;
  double overlap = 0;
  int64_t batch = 1;  // windows at a time
  // On a GPU the inputs of a batch are filled on the host; otherwise they are in the arena.
  bool fills_on_host = false;
};

// Bytes, in addition to the arena. A volume is read; the logits of its windows are merged; then its
// segmentation is written and compared with its label, without the volume's voxels. Each of the
// three begins when what the one before no longer needs is freed.
struct VolumeNeeds {
  // Of files that are read and written, and of gzip.
  static constexpr int64_t kBuffers = int64_t{2} << 20;

  int64_t inputs = 0;  // of a batch, on the host all the time
  int64_t reading = 0;
  int64_t voxels = 0;   // as the model sees them
  int64_t sums = 0;     // SlidingWindow::Bytes
  int64_t windows = 0;  // their places
  int64_t logits = 0;   // of a batch
  int64_t classes = 0;  // of voxels as the model sees them
  int64_t writing = 0;

  int64_t merging() const { return voxels + sums + windows + logits + classes; }
  // The most at a time.
  int64_t bytes() const;
};

VolumeNeeds NeedsOf(const data::VolumeFile& file, const data::VolumeShape& shape,
                    const WindowOptions& options);

// A volume to predict.
struct VolumeToPredict {
  data::VolumeFile file;
  data::VolumeShape shape;
};

// The bytes of the volume that needs most, which are printed; 0 without volumes. UserError with
// ExitCode::kBudgetNotMet when they are more than memory.host_budget; it says what would fit.
int64_t RequireHostMemory(std::span<const VolumeToPredict> volumes, const WindowOptions& options,
                          const config::RunConfig& config);

}  // namespace plimsoll::trainer
