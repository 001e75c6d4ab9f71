// Computes the host memory for the prediction of a volume from the headers of its files. A
// prediction that needs more than memory.host_budget is refused before it begins.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/volumes/volume_files.h"
#include "data/volumes/volume_slots.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The options of a model that predicts volumes in windows.
struct WindowOptions {
  data::PatchShape patch;
  int64_t classes = 0;
  double overlap = 0;
  int64_t batch = 1;  // number of windows at a time
  // Whether inputs of a batch are filled on the host, as for a GPU; otherwise they are in the
  // arena.
  bool fills_on_host = false;
};

// Bytes of host memory in addition to the arena. A prediction has three phases: read a volume;
// merge the logits of its windows; write its segmentation and compare it with the label, without
// the volume's voxels. Before each phase, memory that only the previous phase needs is freed.
struct VolumeNeeds {
  // Buffers for reading and writing files, and of gzip.
  static constexpr int64_t kBuffers = int64_t{2} << 20;

  int64_t inputs = 0;  // size of a batch's inputs, which stay on the host
  int64_t reading = 0;
  int64_t voxels = 0;   // size of the voxels in the model's resolution
  int64_t sums = 0;     // SlidingWindow::Bytes
  int64_t windows = 0;  // size of the windows' positions
  int64_t logits = 0;   // size of a batch's logits
  int64_t slice = 0;    // LikeliestClasses::Bytes
  int64_t classes = 0;  // size of the voxels' classes in the file's resolution
  int64_t writing = 0;

  int64_t merging() const { return voxels + sums + windows + logits + slice + classes; }
  // The most bytes needed at any time.
  int64_t bytes() const;
};

VolumeNeeds NeedsOf(const data::VolumeFile& file, const data::VolumeShape& shape,
                    const WindowOptions& options);

// A volume to predict.
struct VolumeToPredict {
  data::VolumeFile file;
  data::VolumeShape shape;
};

// The largest number of bytes that a volume needs, which is printed; 0 without volumes. Throws a
// UserError with ExitCode::kBudgetNotMet if that number exceeds memory.host_budget. The error says
// what would fit.
int64_t RequireHostMemory(std::span<const VolumeToPredict> volumes, const WindowOptions& options,
                          const config::RunConfig& config);

}  // namespace plimsoll::trainer
