// The data source "synthetic_volumes": made-up volumes with a label for each voxel, for trials,
// benchmarks and studies without files. It fills the inputs "images" f32[B,D,H,W,C] and "labels"
// i32[B,D,H,W] of any size, or both without D, with volumes of that size (synthetic_volume.h).
//
// With N volumes, each epoch is a new random permutation of them. Without a number, the source is
// endless, and sample n is volume n. Held-out volumes are the same for every seed, so that runs can
// be compared.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/random.h"
#include "data/source.h"
#include "data/volumes/synthetic_volume.h"
#include "data/volumes/volume_augmentation.h"
#include "data/volumes/volume_slots.h"

namespace plimsoll::data {
namespace {

// Streams of random numbers drawn from one seed.
constexpr uint64_t kVolumeStream = 1, kOrderStream = 2;
constexpr uint64_t kHeldOutSeed = 0x6865'6c64'206f'7574u;

class HeldOutVolumes final : public Source {
 public:
  HeldOutVolumes(const SyntheticVolumeOptions& options, int64_t count)
      : options_(options), count_(count) {}

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    const VolumeSlots found({options_.size, options_.channels}, slots);
    for (int64_t row = 0; row < found.rows(); ++row) {
      if (first + row < count_) {
        FillSyntheticVolume(options_, kHeldOutSeed, first + row, found.image(row),
                            found.labels(row));
      } else {
        std::ranges::fill(found.image(row), 0.0f);
        std::ranges::fill(found.labels(row), kUnlabelled);
      }
    }
  }
  int64_t CountTargets(std::string_view /*objective*/, int64_t first,
                       int64_t count) const override {
    return std::clamp<int64_t>(count_ - first, 0, count) * options_.size.voxels();
  }
  std::optional<int64_t> samples() const override { return count_; }
  bool pads() const override { return true; }

 private:
  SyntheticVolumeOptions options_;
  int64_t count_;
};

class SyntheticVolumes final : public Source {
 public:
  SyntheticVolumes(const SyntheticVolumeOptions& options, int64_t volumes, int64_t held_out,
                   uint64_t seed)
      : options_(options), volumes_(volumes), held_out_(held_out), seed_(seed) {}

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    const VolumeSlots found({options_.size, options_.channels}, slots);
    for (int64_t row = 0; row < found.rows(); ++row) {
      FillSyntheticVolume(options_, Hash(seed_, kVolumeStream), VolumeOf(first + row),
                          found.image(row), found.labels(row));
    }
  }
  int64_t CountTargets(std::string_view /*objective*/, int64_t /*first*/,
                       int64_t count) const override {
    return count * options_.size.voxels();
  }
  std::vector<int64_t> sizes() const override {
    return volumes_ == 0 ? std::vector<int64_t>() : std::vector<int64_t>{volumes_};
  }
  std::optional<int64_t> epoch_samples() const override {
    return volumes_ == 0 ? std::nullopt : std::optional(volumes_);
  }
  std::unique_ptr<Source> HeldOut(int64_t most) const override {
    if (held_out_ == 0) return nullptr;
    return std::make_unique<HeldOutVolumes>(options_,
                                            most > 0 ? std::min(most, held_out_) : held_out_);
  }
  std::vector<std::string> class_names() const override {
    return SyntheticClassNames(options_.classes);
  }
  std::string Describe(const Reading& reading) const override {
    const VolumeSize& size = options_.size;
    return fmt::format(
        "data: {} of {} × {} × {} × {} in {}, {} per step{}\n",
        Counted(volumes_ == 0 ? "endless" : std::to_string(volumes_), "made-up volume"), size.depth,
        size.height, size.width, options_.channels, Counted(options_.classes, "class"),
        reading.samples_per_step,
        reading.held_out_targets
            ? fmt::format(", {} evaluated every {}",
                          Counted(*reading.held_out_targets / size.voxels(), "held-out volume"),
                          Counted(reading.eval_every, "step"))
            : "");
  }

 private:
  int64_t VolumeOf(int64_t sample) const {
    if (volumes_ == 0) return sample;
    const auto count = static_cast<uint64_t>(volumes_), number = static_cast<uint64_t>(sample);
    const Permutation order(count, Hash(seed_, kOrderStream, number / count));
    return static_cast<int64_t>(order(number % count));
  }

  SyntheticVolumeOptions options_;
  int64_t volumes_, held_out_;
  uint64_t seed_;
};

std::unique_ptr<Source> Make(const Settings& settings, const ModelSizes& model, uint64_t seed) {
  const PatchShape shape = PatchOf(model);
  const SyntheticVolumeOptions options = {
      .size = shape.size,
      .channels = shape.channels,
      .classes = std::clamp<int64_t>(model.classes, 2, kMostVolumeClasses)};
  return std::make_unique<SyntheticVolumes>(options, settings.Int("volumes"),
                                            settings.Int("held_out"), seed);
}

const SourceRegistration kSource({
    .name = "synthetic_volumes",
    .settings = {{.name = "volumes",
                  .doc =
                      "How many made-up volumes there are to train on; 0: each sample is another "
                      "one.",
                  .default_value = int64_t{0},
                  .min = 0},
                 {.name = "held_out",
                  .doc = "Made-up volumes that evaluations see and training does not.",
                  .default_value = int64_t{16},
                  .min = 0},
                 WorkersSetting()},
    .make = &Make,
    .fills = VolumeInputs(),
    .holds_out = [](const Settings& settings) { return settings.Int("held_out") > 0; },
    .made_up = "",
});

}  // namespace
}  // namespace plimsoll::data
