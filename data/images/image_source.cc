// The data source "images": labelled images. It fills the inputs "images" f32[B,H,W,C], normalised;
// "labels" i32[B] of models that classify, or "label_values", f32[B,classes] or f32[B]; if images
// are mixed, "labels_b" i32[B] and "label_weight" f32[B]; and the noise of models that generate
// images.
//
// Each epoch is a new random permutation of the N training images: sample n is number n mod N in
// the permutation of epoch n / N. For RandAugment and mixing, each thread that fills batches
// allocates scratch memory once. Decoding allocates memory for each image.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/error.h"
#include "base/random.h"
#include "data/images/image_mixing.h"
#include "data/images/image_set.h"
#include "data/noise.h"
#include "data/source.h"

namespace plimsoll::data {
namespace {

// Streams of random numbers drawn from one seed.
constexpr uint64_t kOrderStream = 1, kAugmentationStream = 2, kMixStream = 3, kPartnerStream = 4;

constexpr int32_t kNoLabel = -1;  // label of rows that carry no loss

// The source's inputs among the slots. An input that the model does not have is empty.
struct ImageSlots {
  std::span<float> images;                   // [B,H,W,C]
  std::span<int32_t> labels, second_labels;  // [B]
  std::span<float> weights;                  // [B]: weights of the first labels
  std::span<float> label_values;             // [B,classes] or [B]
  int64_t rows = 0;
};

bool IsColumn(const graph::Slot& slot, graph::DType dtype) {
  return slot.type.dtype == dtype && slot.type.shape.rank() == 1;
}

ImageSlots SlotsOf(const ImageSet& images, std::span<const graph::Slot> slots) {
  ImageSlots found;
  for (const graph::Slot& slot : slots) {
    const graph::Shape& shape = slot.type.shape;
    if (slot.name == "images" && slot.type.dtype == graph::DType::kFloat32) {
      const ImageSize& canvas = images.seen().canvas;
      if (shape.rank() != 4 || shape.dim(1) != canvas.height || shape.dim(2) != canvas.width ||
          shape.dim(3) != canvas.channels) {
        throw UserError(images.WhyNot(slot));
      }
      found.images = slot.values<float>();
    } else if (slot.name == "labels" && IsColumn(slot, graph::DType::kInt32)) {
      found.labels = slot.values<int32_t>();
    } else if (slot.name == "labels_b" && IsColumn(slot, graph::DType::kInt32)) {
      found.second_labels = slot.values<int32_t>();
    } else if (slot.name == "label_weight" && IsColumn(slot, graph::DType::kFloat32)) {
      found.weights = slot.values<float>();
    } else if (slot.name == "label_values" && slot.type.dtype == graph::DType::kFloat32) {
      if (images.labels() == nullptr) {
        throw UserError(
            "images are of one class each, and a model of several labels or of a number reads "
            "label_values; list files with their labels in metadata.jsonl, or set "
            "model.problem_type: single_label_classification and model.classes");
      }
      found.label_values = slot.values<float>();
    } else if (!IsNoise(slot)) {
      throw UserError(fmt::format(
          "images have nothing for the model's input '{}', {}; they fill images f32[B,H,W,C], "
          "labels i32[B], labels_b i32[B], label_weight f32[B] and noise f32[B,D]",
          slot.name, slot.type.ToString()));
    }
    if (found.rows != 0 && found.rows != shape.dim(0)) {
      throw InternalError("inputs of one batch with different numbers of rows");
    }
    found.rows = shape.dim(0);
  }
  return found;
}

// The values of one row, or an empty span if the model reads no images.
std::span<float> RowOf(const ImageSet& images, const ImageSlots& slots, int64_t row) {
  if (slots.images.empty()) return {};
  const auto values = static_cast<size_t>(images.seen().canvas.elements());
  return slots.images.subspan(static_cast<size_t>(row) * values, values);
}

// Fills the labels of one row; `share` is the weight of the first label.
void FillLabels(const ImageSet& images, const ImageSlots& slots, int64_t row, int32_t first,
                int32_t second, double share) {
  const auto at = static_cast<size_t>(row);
  if (!slots.label_values.empty()) {
    const size_t each = slots.label_values.size() / static_cast<size_t>(slots.rows);
    images.labels()->FillValues(first, slots.label_values.subspan(at * each, each));
  }
  if (!slots.labels.empty()) slots.labels[at] = first;
  if (!slots.second_labels.empty()) slots.second_labels[at] = second;
  if (!slots.weights.empty()) slots.weights[at] = static_cast<float>(share);
}

class HeldOutImages final : public Source {
 public:
  // Uses the first `count` held-out images.
  HeldOutImages(std::shared_ptr<const ImageSet> images, int64_t count)
      : images_(std::move(images)), count_(count) {}

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    const ImageSlots found = SlotsOf(*images_, slots);
    for (int64_t row = 0; row < found.rows; ++row) {
      const std::span<float> to = RowOf(*images_, found, row);
      int32_t label = kNoLabel;
      if (first + row < count_) {
        label = images_->DrawHeldOut(first + row, to);
      } else {
        std::ranges::fill(to, 0.0f);
      }
      FillLabels(*images_, found, row, label, label, 1);
    }
    for (const graph::Slot& slot : slots) {
      if (IsNoise(slot)) FillNoise(slot, first, 0);
    }
  }
  int64_t CountTargets(std::string_view /*objective*/, int64_t first,
                       int64_t count) const override {
    return std::clamp<int64_t>(count_ - first, 0, count);
  }
  std::optional<int64_t> samples() const override { return count_; }
  bool pads() const override { return true; }
  std::string Unread() const override { return images_->Unread(); }

 private:
  std::shared_ptr<const ImageSet> images_;
  int64_t count_;
};

class ImageSource final : public Source {
 public:
  ImageSource(NamedImages named, const ImageMixing& mixing, uint64_t seed)
      : images_(std::move(named.images)),
        mixing_(mixing),
        class_names_(std::move(named.class_names)),
        seed_(seed) {}

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    const ImageSlots found = SlotsOf(*images_, slots);
    const bool labelled = !found.labels.empty() || !found.label_values.empty();
    if (mixing_.any() && labelled && found.second_labels.empty()) {
      throw UserError(
          "data.mixup and data.cutmix give images two labels, but the model reads one; leave them "
          "out, or set model.mixed_labels where the family has it");
    }
    for (int64_t row = 0; row < found.rows; ++row) FillRow(first + row, found, row);
    for (const graph::Slot& slot : slots) {
      if (IsNoise(slot)) FillNoise(slot, first, seed_);
    }
  }
  void CheckBound(std::string_view input, int64_t bound) const override {
    if (input == "labels") images_->CheckLabelsBelow(bound);
  }
  std::vector<int64_t> sizes() const override { return {images_->train_count()}; }
  std::optional<int64_t> epoch_samples() const override { return images_->train_count(); }
  std::unique_ptr<Source> HeldOut(int64_t most) const override {
    const int64_t all = images_->held_out_count();
    if (all == 0) return nullptr;
    return std::make_unique<HeldOutImages>(images_, most > 0 ? std::min(most, all) : all);
  }
  std::vector<std::string> class_names() const override { return class_names_; }
  const ImagePreparation* image_preparation() const override { return &images_->seen(); }
  std::string Unread() const override { return images_->Unread(); }
  std::string Describe(const Reading& reading) const override {
    std::string text = fmt::format(
        "data: {} to train on, {} per step, {:.1f} epochs{}\n", images_->Summary(),
        reading.samples_per_step,
        static_cast<double>(reading.samples) / static_cast<double>(images_->train_count()),
        reading.held_out_targets ? fmt::format(", {} evaluated every {}",
                                               Counted(*reading.held_out_targets, "held-out image"),
                                               Counted(reading.eval_every, "step"))
                                 : "");
    text += images_->PreparationLines();
    if (mixing_.mixup > 0) text += fmt::format("  mixed (mixup {:.4g})\n", mixing_.mixup);
    if (mixing_.cutmix > 0) text += fmt::format("  mixed (CutMix {:.4g})\n", mixing_.cutmix);
    const ByteScale& bytes = images_->seen().bytes;
    return text + fmt::format("  mean {:.4g}, std {:.4g}{}\n",
                              fmt::join(bytes.statistics.mean, " "),
                              fmt::join(bytes.statistics.std, " "),
                              bytes.rescale == kRescale
                                  ? ""
                                  : fmt::format(" of bytes times {:.4g}", bytes.rescale));
  }

 private:
  // The training image that the sample shows.
  int64_t ImageOf(int64_t sample) const {
    const int64_t count = images_->train_count();
    const auto epoch = static_cast<uint64_t>(sample / count);
    const Permutation order(static_cast<uint64_t>(count), Hash(seed_, kOrderStream, epoch));
    return static_cast<int64_t>(order(static_cast<uint64_t>(sample % count)));
  }

  void FillRow(int64_t sample, const ImageSlots& slots, int64_t row) const {
    const std::span<float> to = RowOf(*images_, slots, row);
    const uint64_t seed = Hash(seed_, kAugmentationStream);
    const int32_t own = images_->DrawTrain(ImageOf(sample), seed, sample, to);
    if (!mixing_.any()) return FillLabels(*images_, slots, row, own, own, 1);
    // The partner is a random image with its own augmentation.
    SampleRandom random(seed_, sample, kMixStream);
    const int64_t partner = random.Below(images_->train_count());
    const ImageSize& canvas = images_->seen().canvas;
    const ImageMix mix = mixing_.Draw(canvas, random);
    static thread_local std::vector<float> other;
    other.resize(to.size());
    const int32_t second = images_->DrawTrain(partner, Hash(seed, kPartnerStream), sample, other);
    if (!to.empty()) MixImages(mix, canvas, to, other);
    FillLabels(*images_, slots, row, own, second, mix.own_share);
  }

  std::shared_ptr<const ImageSet> images_;
  ImageMixing mixing_;
  std::vector<std::string> class_names_;
  uint64_t seed_;
};

std::unique_ptr<Source> Make(const Settings& settings, const ModelSizes& model, uint64_t seed) {
  return std::make_unique<ImageSource>(ImagesFrom(settings, model), MixingFrom(settings), seed);
}

const SourceRegistration kSource({
    .name = "images",
    .settings = ImageSettings(),
    .make = &Make,
    .follow = &FollowPreparation,
    .follow_maker = &FollowMaker,
    .count_classes = &CountImageClasses,
    .fills = {{"images", {4}}, {"labels", {1}}, {"label_values", {1, 2}}, {"noise", {2}}},
    .mixes = [](const Settings& settings) -> std::string {
      if (settings.Float("mixup") > 0) return "mixup";
      return settings.Float("cutmix") > 0 ? "cutmix" : "";
    },
    .holds_out = &HoldsOutImages,
    .example = "folder: FOLDER",
});

}  // namespace
}  // namespace plimsoll::data
