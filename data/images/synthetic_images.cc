// The data source "synthetic_images": made-up images for plans, benchmarks and studies without
// files. It fills the inputs "images" f32[B,H,W,C] of any size with noise of mean 0 and variance 1,
// and "labels" or "label_values" (FillLabels). It is endless and has no held-out samples.
//
// The pixels of a sample are a slice of one long table of noise, because drawing every pixel would
// take longer than the step that reads them.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "data/labels.h"
#include "data/noise.h"
#include "data/source.h"

namespace plimsoll::data {
namespace {

constexpr uint64_t kNoiseStream = 1, kPixelStream = 2;
constexpr uint64_t kNoise =
    (uint64_t{1} << 20) + 7;  // length of the table; no multiple of an image size

// A uniform number in [0, 1) with 53 random bits.
double Uniform(uint64_t random) { return static_cast<double>(random >> 11) * 0x1p-53; }

class SyntheticImages final : public Source {
 public:
  SyntheticImages(int64_t classes, uint64_t seed) : classes_(classes), seed_(seed), noise_(kNoise) {
    // The sum of twelve uniform numbers has variance 1.
    for (uint64_t i = 0; i < kNoise; ++i) {
      double sum = -6;
      for (uint64_t k = 0; k < 12; ++k) sum += Uniform(Hash(seed, kNoiseStream, i * 12 + k));
      noise_[i] = static_cast<float>(sum);
    }
  }

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    for (const graph::Slot& slot : slots) {
      const graph::Shape& shape = slot.type.shape;
      if (slot.name == "images" && slot.type.dtype == graph::DType::kFloat32) {
        FillPixels(first, shape.dim(0), slot.values<float>());
      } else if (IsLabels(slot)) {
        FillLabels(slot, first, classes_, seed_);
      } else if (IsNoise(slot)) {
        FillNoise(slot, first, seed_);
      } else {
        throw UserError(fmt::format(
            "made-up images have nothing for the model's input '{}', {}; they fill images "
            "f32[B,H,W,C], labels and noise f32[B,D]",
            slot.name, slot.type.ToString()));
      }
    }
  }

  std::string Describe(const Reading& reading) const override {
    return fmt::format("data: made-up images in {} classes, {} per step\n", classes_,
                       reading.samples_per_step);
  }

 private:
  void FillPixels(int64_t first, int64_t rows, std::span<float> pixels) const {
    const auto each = static_cast<int64_t>(pixels.size()) / std::max<int64_t>(1, rows);
    float* to = pixels.data();
    for (int64_t row = 0; row < rows; ++row) {
      uint64_t from = Below(Hash(seed_, kPixelStream, static_cast<uint64_t>(first + row)), kNoise);
      for (int64_t left = each; left > 0;) {
        const int64_t count = std::min(left, static_cast<int64_t>(kNoise - from));
        std::copy_n(noise_.data() + from, count, to);
        to += count;
        left -= count;
        from = 0;
      }
    }
  }

  int64_t classes_;
  uint64_t seed_;
  std::vector<float> noise_;
};

const SourceRegistration kSource({
    .name = "synthetic_images",
    .settings = {WorkersSetting()},
    .make = [](const Settings& /*settings*/, const ModelSizes& model,
               uint64_t seed) -> std::unique_ptr<Source> {
      return std::make_unique<SyntheticImages>(std::max<int64_t>(1, model.classes), seed);
    },
    .fills = {{"images", {4}}, {"labels", {1}}, {"label_values", {1, 2}}, {"noise", {2}}},
    .made_up = "",
});

}  // namespace
}  // namespace plimsoll::data
