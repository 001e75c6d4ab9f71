#include "trainer/language/volume_needs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "data/volumes/volume_patches.h"
#include "data/volumes/volume_resampling.h"
#include "trainer/language/sliding_window.h"
#include "trainer/resolve/run_budget.h"

namespace plimsoll::trainer {
namespace {

// The largest batch for which each volume needs at most `budget`; 0 means none.
int64_t LargestBatch(std::span<const VolumeToPredict> volumes, const WindowOptions& options,
                     int64_t budget) {
  budget -= VolumeNeeds::kBuffers;
  int64_t batch = options.batch;
  for (const auto& [file, shape] : volumes) {
    const VolumeNeeds needs = NeedsOf(file, shape, options);
    const int64_t inputs = needs.inputs / options.batch, logits = needs.logits / options.batch;
    const auto limit = [&](int64_t other, int64_t of_window) {
      if (other > budget) {
        batch = 0;
      } else if (of_window > 0) {
        batch = std::min(batch, (budget - other) / of_window);
      }
    };
    limit(std::max(needs.reading, needs.writing), inputs);
    limit(needs.merging() - needs.logits, inputs + logits);
  }
  return batch;
}

std::string PartsText(const data::VolumeShape& shape, const VolumeNeeds& needs,
                      const WindowOptions& options) {
  return fmt::format(
      "{} to read it, {} to merge windows (voxels {}, sums of {} of {} slices {}, windows {}, "
      "logits {}, resampling {}, classes {}), {} to write it; {} for {}",
      FormatBytes(needs.reading), FormatBytes(needs.merging()), FormatBytes(needs.voxels),
      SlidingWindow::Slices(shape.size, options.patch.size), shape.size.depth,
      FormatBytes(needs.sums), FormatBytes(needs.windows), FormatBytes(needs.logits),
      FormatBytes(needs.slice), FormatBytes(needs.classes), FormatBytes(needs.writing),
      FormatBytes(VolumeNeeds::kBuffers + needs.inputs),
      needs.inputs > 0 ? "buffers and inputs" : "buffers");
}

}  // namespace

int64_t VolumeNeeds::bytes() const {
  return kBuffers + inputs + std::max({reading, merging(), writing});
}

VolumeNeeds NeedsOf(const data::VolumeFile& file, const data::VolumeShape& shape,
                    const WindowOptions& options) {
  constexpr int64_t kFloat = sizeof(float), kLabel = sizeof(int32_t);
  const data::PatchShape& patch = options.patch;
  VolumeNeeds needs;
  needs.reading = data::ReadingBytes(file, shape);
  needs.voxels = shape.size.voxels() * shape.channels * kFloat;
  needs.sums = SlidingWindow::Bytes(shape.size, patch.size, options.classes);
  needs.windows = data::CountWindows(shape.size, patch.size, options.overlap) *
                  static_cast<int64_t>(sizeof(data::VolumeWindow));
  const int64_t batch_voxels = options.batch * patch.size.voxels();
  if (options.fills_on_host) needs.inputs = batch_voxels * (patch.channels * kFloat + kLabel);
  needs.logits = batch_voxels * options.classes * kFloat;
  needs.slice = data::LikeliestClasses::Bytes(shape.size, shape.file_size, options.classes);
  needs.classes = shape.file_size.voxels();
  // For scoring, the segmentation is read again with the volume's label.
  const data::VolumeFile segmentation = {
      .name = file.name, .images = {file.name}, .label = file.label};
  const data::VolumeShape written = {.size = shape.file_size, .file_size = shape.file_size};
  needs.writing = std::max(needs.classes + data::WritingBytes(written.size),
                           data::ReadingBytes(segmentation, written));
  return needs;
}

int64_t RequireHostMemory(std::span<const VolumeToPredict> volumes, const WindowOptions& options,
                          const config::RunConfig& config) {
  if (volumes.empty()) return 0;
  const auto bytes_of = [&](const VolumeToPredict& volume) {
    return NeedsOf(volume.file, volume.shape, options).bytes();
  };
  const auto& [file, shape] = *std::ranges::max_element(volumes, {}, bytes_of);
  const VolumeNeeds needs = NeedsOf(file, shape, options);
  const std::string parts = PartsText(shape, needs, options);
  constexpr const char* kKey = "memory.host_budget";
  const int64_t budget =
      config.memory.host_budget ? BytesOf(*config.memory.host_budget, config, kKey) : needs.bytes();
  if (needs.bytes() > budget) {
    const int64_t batch = LargestBatch(volumes, options, budget);
    const std::string ways =
        batch > 0 ? fmt::format("give --batch {} in place of {}, or --host-budget {}", batch,
                                options.batch, needs.bytes())
                  : fmt::format("give --host-budget {}, or {}", needs.bytes(),
                                volumes.size() > 1 ? "leave out volumes of such a size"
                                                   : "crop the volume");
    throw UserError(
        fmt::format("{}: {}: {} ({} bytes); {}, {} × {} × {} voxels, needs {} of the host ({} "
                    "bytes): {}; {}; nothing was written",
                    config.Origin(kKey), kKey, FormatBytes(budget), budget, file.images.front(),
                    shape.size.depth, shape.size.height, shape.size.width,
                    FormatBytes(needs.bytes()), needs.bytes(), parts, ways),
        ExitCode::kBudgetNotMet);
  }
  PrintNote(fmt::format(
      "{}{}: up to {} of the host: {}\n",
      volumes.size() > 1 ? fmt::format("{} volumes, most memory for ", volumes.size()) : "",
      file.name, FormatBytes(needs.bytes()), parts));
  return needs.bytes();
}

}  // namespace plimsoll::trainer
