// The data source "volumes": labelled volumes in NIfTI files. It fills the inputs "images"
// f32[B,D,H,W,C], normalised, and "labels" i32[B,D,H,W] with patches of that size; for inputs
// without D, it fills both with slices across z. All volumes stay in memory.
//
// An epoch has one patch of each of the N volumes, in a new random order: sample n is a patch of
// volume number n mod N in the order of epoch n / N.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/random.h"
#include "data/class_names.h"
#include "data/source.h"
#include "data/volumes/volume_augmentation.h"
#include "data/volumes/volume_dataset.h"
#include "data/volumes/volume_patches.h"
#include "data/volumes/volume_preparation.h"
#include "data/volumes/volume_set.h"
#include "data/volumes/volume_slots.h"

namespace plimsoll::data {
namespace {

// Streams of random numbers drawn from one seed.
constexpr uint64_t kOrderStream = 1, kPatchStream = 2, kAugmentationStream = 3;

constexpr size_t kMostNamed = 5;  // the most skipped volumes that a message names

std::string Text(const VolumeSize& size) {
  return fmt::format("{} × {} × {}", size.depth, size.height, size.width);
}

bool Fits(const VolumeSize& patch, const VolumeSize& volume) {
  return patch.depth <= volume.depth && patch.height <= volume.height &&
         patch.width <= volume.width;
}

// Names the labels whose voxels carry no loss.
std::string UncountedText(const VolumeDataset& dataset) {
  if (!dataset.ignored) return "labels below 0";
  return fmt::format("label {} (ignore) and labels below 0", *dataset.ignored);
}

// How patches are drawn in training and evaluation.
struct Sampling {
  PatchShape patch;
  double foreground = 0;  // the fraction of training patches around foreground
  double overlap = 0;     // overlap of the windows in evaluation
  VolumeAugmentation augmentation;
};

class VolumeSource final : public Source {
 public:
  // `note`: an additional line of the description, or empty.
  VolumeSource(VolumeSet volumes, const Sampling& sampling, std::vector<std::string> class_names,
               std::string note, uint64_t seed)
      : volumes_(std::make_shared<const VolumeSet>(std::move(volumes))),
        sampling_(sampling),
        class_names_(std::move(class_names)),
        note_(std::move(note)),
        seed_(seed) {
    for (const Volume& volume : volumes_->train) {
      foreground_.emplace_back(volume.labels);
      pads_ |= !Fits(sampling_.patch.size, volume.size);
      unlabelled_.push_back(std::ranges::find(volume.labels, kNoLabel) != volume.labels.end());
    }
    has_unlabelled_ = std::ranges::find(unlabelled_, true) != unlabelled_.end();
  }

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    const VolumeSlots found(sampling_.patch, slots);
    for (int64_t row = 0; row < found.rows(); ++row) {
      FillRow(first + row, found.image(row), found.labels(row));
    }
  }
  int64_t CountTargets(std::string_view /*objective*/, int64_t first,
                       int64_t count) const override {
    const VolumeSize& patch = sampling_.patch.size;
    if (!pads_ && !has_unlabelled_) return count * patch.voxels();
    int64_t targets = 0;
    for (int64_t sample = first; sample < first + count; ++sample) {
      const size_t number = VolumeOf(sample);
      const Volume& volume = volumes_->train[number];
      const VoxelBox covered = CoveredBy(volume.size, patch, FirstOf(sample, number));
      targets += unlabelled_[number] ? CountLabelled(volume, covered) : covered.voxels();
    }
    return targets;
  }
  void CheckBound(std::string_view input, int64_t bound) const override {
    if (input != "labels") return;
    for (const std::vector<Volume>* part : {&volumes_->train, &volumes_->held_out}) {
      for (const Volume& volume : *part) {
        const auto of_class = [](uint8_t label) { return label == kNoLabel ? -1 : label; };
        const int largest = of_class(*std::ranges::max_element(volume.labels, {}, of_class));
        if (largest < bound) continue;
        throw UserError(
            fmt::format("{}: has label {}, but the model distinguishes {}, 0 to "
                        "{}; raise model.classes, or name other volumes",
                        volume.name, largest, Counted(bound, "class"), bound - 1));
      }
    }
  }
  std::vector<int64_t> sizes() const override {
    return {std::ssize(volumes_->train), VoxelsToTrainOn()};
  }
  std::optional<int64_t> epoch_samples() const override { return std::ssize(volumes_->train); }
  std::unique_ptr<Source> HeldOut(int64_t most) const override {
    if (volumes_->held_out.empty()) return nullptr;
    auto windows =
        std::make_unique<HeldOutWindows>(volumes_, sampling_.patch, sampling_.overlap, most);
    if (windows->samples() > 0) return windows;
    throw UserError(
        fmt::format("data.folder: no held-out volume has a voxel that counts: {} don't; label some "
                    "voxels otherwise, or hold out other volumes",
                    UncountedText(volumes_->dataset)));
  }
  std::vector<std::string> class_names() const override { return class_names_; }
  std::string Describe(const Reading& reading) const override;

 private:
  int64_t VoxelsToTrainOn() const {
    int64_t sum = 0;
    for (const Volume& volume : volumes_->train) sum += volume.size.voxels();
    return sum;
  }

  // The training volume that the sample is a patch of.
  size_t VolumeOf(int64_t sample) const {
    const auto count = static_cast<uint64_t>(volumes_->train.size());
    const auto number = static_cast<uint64_t>(sample);
    const Permutation order(count, Hash(seed_, kOrderStream, number / count));
    return static_cast<size_t>(order(number % count));
  }

  VoxelPlace FirstOf(int64_t sample, size_t volume) const {
    SampleRandom random(seed_, sample, kPatchStream);
    return DrawPatch(volumes_->train[volume].size, sampling_.patch.size, foreground_[volume],
                     sampling_.foreground, random);
  }

  void FillRow(int64_t sample, std::span<float> image, std::span<int32_t> labels) const {
    const size_t number = VolumeOf(sample);
    const Volume& volume = volumes_->train[number];
    const PatchShape& patch = sampling_.patch;
    const VolumeAugmentation& augmentation = sampling_.augmentation;
    const uint64_t seed = Hash(seed_, kAugmentationStream);
    const PatchPlace place = {
        .first = FirstOf(sample, number),
        .orientation = augmentation.DrawOrientation(patch.size, seed, sample)};
    for (int64_t c = 0; c < patch.channels && !image.empty(); ++c) {
      CopyChannel(volume, place, patch.size, c, augmentation.DrawIntensity(c, seed, sample), image);
    }
    if (!labels.empty()) CopyLabels(volume, place, patch.size, labels);
  }

  std::shared_ptr<const VolumeSet> volumes_;
  Sampling sampling_;
  std::vector<ForegroundIndex> foreground_;  // foreground voxels of each training volume
  bool pads_ = false;                        // whether some volumes are smaller than a patch
  std::vector<bool> unlabelled_;             // whether each volume has voxels without a label
  bool has_unlabelled_ = false;              // whether any volume has such voxels
  std::vector<std::string> class_names_;
  std::string note_;
  uint64_t seed_;
};

std::string VolumeSource::Describe(const Reading& reading) const {
  const VolumeSet& set = *volumes_;
  const VolumeAugmentation& augmentation = sampling_.augmentation;
  std::string text = fmt::format(
      "data: {} to train on, {} voxels with {}, in patches of {}, {} per step, "
      "{:.1f} epochs{}\n",
      Counted(set.train.size(), "volume"), FormatCount(static_cast<double>(VoxelsToTrainOn())),
      Counted(sampling_.patch.channels, "channel"), Text(sampling_.patch.size),
      reading.samples_per_step,
      static_cast<double>(reading.samples) / static_cast<double>(set.train.size()),
      reading.held_out_targets
          ? fmt::format(", {} voxels of {} evaluated every {}",
                        FormatCount(static_cast<double>(*reading.held_out_targets)),
                        Counted(set.held_out.size(), "held-out volume"),
                        Counted(reading.eval_every, "step"))
          : "");
  text += fmt::format("  {} in memory\n", FormatBytes(set.bytes()));
  text += fmt::format("  around foreground with probability {:.4g}\n", sampling_.foreground);
  if (pads_) text += "  padded where volumes are smaller\n";
  if (set.dataset.ignored || has_unlabelled_) {
    text += fmt::format("  {} count for nothing\n", UncountedText(set.dataset));
  }
  text += note_;
  if (augmentation.flip) text += "  flipped along each axis with probability 1/2\n";
  if (augmentation.rotate90) text += "  rotated by multiples of 90°\n";
  if (augmentation.scale > 0) {
    text += fmt::format("  intensities scaled by 1 ± {:.4g}\n", augmentation.scale);
  }
  if (augmentation.shift > 0) {
    text += fmt::format("  intensities shifted by up to {:.4g}\n", augmentation.shift);
  }
  if (set.skipped.empty()) return text;
  text += fmt::format("  {} skipped, which cannot be read:\n", set.skipped.size());
  for (size_t i = 0; i < std::min(kMostNamed, set.skipped.size()); ++i) {
    text += fmt::format("    {}\n", set.skipped[i]);
  }
  if (set.skipped.size() > kMostNamed) text += "    …\n";
  return text;
}

VolumeSetOptions SetOptionsFrom(const Settings& settings, const ModelSizes& model) {
  return {.folder = settings.Text("folder"),
          .preparation = VolumePreparationFrom(settings, model.classes),
          .held_out = settings.Int("held_out"),
          .skip_unreadable = settings.Text("unreadable") == "skip"};
}

Sampling SamplingFrom(const Settings& settings, const PatchShape& patch) {
  return {.patch = patch,
          .foreground = settings.Float("foreground"),
          .overlap = settings.Float("overlap"),
          .augmentation = {.flip = settings.Bool("flip"),
                           .rotate90 = settings.Bool("rotate90"),
                           .scale = settings.Float("scale_intensity"),
                           .shift = settings.Float("shift_intensity")}};
}

// Throws a SettingError unless the model can read volumes with that number of channels.
void RequireChannels(int64_t channels, const PatchShape& patch) {
  if (channels == patch.channels) return;
  throw SettingError("folder", fmt::format("volumes have {}, and the model reads {}; set "
                                           "model.channels: {}, or name other volumes",
                                           Counted(channels, "channel"), patch.channels, channels));
}

void RequireFit(const std::string& name, const VolumeSize& size, const PatchShape& patch,
                bool pads) {
  if (pads || Fits(patch.size, size)) return;
  throw SettingError(
      "folder",
      fmt::format("{} has {} voxels, and the model reads patches of {}; data.pad: true puts "
                  "small volumes into the middle of zeros, or give the model smaller patches",
                  name, Text(size), Text(patch.size)));
}

// Sets data.normalise if the run file leaves it open.
void Complete(Settings& settings) {
  if (settings.Has("normalise")) return;
  std::string choice = "z_score";
  const std::string path = settings.Text("folder") + "/" + kDatasetFile;
  if (std::error_code ignored; std::filesystem::exists(path, ignored)) {
    VolumeDataset set;
    try {
      set = ReadDataset(path);
    } catch (const UserError& error) {
      throw SettingError("folder", error.what());
    }
    try {
      choice = set.Normalisation(path, settings.Has("clip"));
    } catch (const UserError& error) {
      throw SettingError("normalise", error.what());
    }
  }
  settings.Derive("normalise", choice);
}

std::unique_ptr<Source> Make(const Settings& settings, const ModelSizes& model, uint64_t seed) {
  const PatchShape patch = PatchOf(model);
  VolumeSet set = ReadVolumeSet(SetOptionsFrom(settings, model));
  std::vector<std::string> class_names = ClassNamesFrom(settings, model.classes);
  std::string note;
  if (class_names.empty()) {
    class_names = set.dataset.ClassNames(model.classes);
    note = set.dataset.OtherClasses(model.classes);
  }
  RequireChannels(set.train.front().channels, patch);
  for (const std::vector<Volume>* part : {&set.train, &set.held_out}) {
    for (const Volume& volume : *part) {
      RequireFit(volume.name, volume.size, patch, settings.Bool("pad"));
    }
  }
  return std::make_unique<VolumeSource>(std::move(set), SamplingFrom(settings, patch),
                                        std::move(class_names), std::move(note), seed);
}

void Check(const Settings& settings, const ModelSizes& model, std::span<const graph::Slot> slots) {
  const PatchShape patch = PatchOf(model);
  const std::vector<VolumeOutline> outlines = OutlineOf(SetOptionsFrom(settings, model));
  ClassNamesFrom(settings, model.classes);
  RequireChannels(outlines.front().shape.channels, patch);
  for (const VolumeOutline& outline : outlines) {
    RequireFit(outline.name, outline.shape.size, patch, settings.Bool("pad"));
  }
  const VolumeSlots found(patch, slots);
}

std::optional<int64_t> CountClasses(const Settings& settings, LabelKind /*kind*/) {
  try {
    return FindVolumes(settings.Text("folder")).dataset.CountClasses();
  } catch (const UserError& error) {
    throw SettingError("folder", error.what());
  }
}

std::vector<Setting> Rows() {
  return {
      {.name = "folder",
       .type = Setting::Type::kString,
       .doc = "Where the volumes are: `imagesTr` and `labelsTr` with NIfTI files, and possibly "
              "`imagesTs` and `labelsTs`, as the Medical Segmentation Decathlon or nnU-Net have "
              "them (docs/volumes.md).",
       .required = "name the folder with imagesTr and labelsTr"},
      ClassNamesSetting(),
      {.name = "spacing",
       .type = Setting::Type::kFloatList,
       .doc = "Volumes get voxels of this size, in millimetres along z, y and x, or one number for "
              "all.",
       .derived = "each volume keeps its own",
       .min = 0,
       .above_min = true},
      {.name = "resample",
       .type = Setting::Type::kBool,
       .doc = "Volumes of another spacing than `spacing` are resampled, images linearly, labels by "
              "the largest interpolated share; `false`: they are refused.",
       .default_value = true},
      {.name = "clip",
       .type = Setting::Type::kFloatList,
       .doc = "Intensities below the first number become it, and those above the second that one, "
              "before they are normalised: `[-100, 300]` for soft tissue in CT.",
       .derived = "they stay as they are"},
      {.name = "normalise",
       .type = Setting::Type::kChoice,
       .doc = "`z_score`: each channel of each volume gets mean 0 and standard deviation 1.",
       .derived = "`z_score`, or what the names of channels in the folder's `dataset.json` ask for",
       .choices = {"z_score", "none"}},
      {.name = "pad",
       .type = Setting::Type::kBool,
       .doc =
           "A volume that is smaller than the model's patches lies in the middle of zeros, which "
           "count for nothing; `false`: it is refused.",
       .default_value = false},
      {.name = "foreground",
       .type = Setting::Type::kFloat,
       .doc = "For training, the probability with which a patch is around a voxel of a class other "
              "than 0, each class that the volume has as often as the others; otherwise it is "
              "anywhere in the volume.",
       .default_value = 0.33,
       .min = 0,
       .max = 1},
      {.name = "flip",
       .type = Setting::Type::kBool,
       .doc = "For training, a patch is flipped along each axis with probability ½.",
       .default_value = false},
      {.name = "rotate90",
       .type = Setting::Type::kBool,
       .doc =
           "For training, a patch is rotated by 0°, 90°, 180° or 270° in each plane in which its "
           "two sides are equal.",
       .default_value = false},
      {.name = "scale_intensity",
       .type = Setting::Type::kFloat,
       .doc =
           "For training, each channel of a patch is multiplied by a number drawn from 1 ± this.",
       .default_value = 0.0,
       .min = 0,
       .max = 1},
      {.name = "shift_intensity",
       .type = Setting::Type::kFloat,
       .doc = "For training, a number drawn from 0 ± this is then added to each channel.",
       .default_value = 0.0,
       .min = 0},
      {.name = "held_out",
       .doc = "The number of volumes that are held out of training, the last ones of `imagesTr` by "
              "name; 0: those of `imagesTs` are, if they have labels.",
       .default_value = int64_t{0},
       .min = 0},
      {.name = "overlap",
       .type = Setting::Type::kFloat,
       .doc = "In evaluations, windows that cover the held-out volumes overlap by this part of "
              "their sides. Each voxel counts once, in the window that has it nearest to its "
              "middle.",
       .default_value = 0.25,
       .min = 0,
       .max = 1,
       .below_max = true},
      {.name = "unreadable",
       .type = Setting::Type::kChoice,
       .doc = "What a volume that cannot be read does: `error` ends the run, `skip` leaves the "
              "volume out, and the start of the run says so.",
       .default_value = std::string("error"),
       .choices = {"error", "skip"}},
      {.name = "most_voxels",
       .doc = "The most voxels that a volume may have, all channels together; one with more cannot "
              "be read.",
       .default_value = int64_t{1} << 29,
       .min = 1},
      WorkersSetting()};
}

const SourceRegistration kSource({
    .name = "volumes",
    .settings = Rows(),
    .complete = &Complete,
    .make = &Make,
    .count_classes = &CountClasses,
    .bytes = [](const Settings& settings) { return BytesOf(SetOptionsFrom(settings, {})); },
    .check = &Check,
    .fills = VolumeInputs(),
    .holds_out =
        [](const Settings& settings) {
          return settings.IntOr("held_out", 0) > 0 ||
                 (settings.Has("folder") && MayHaveLabelledTests(settings.Text("folder")));
        },
    .example = "folder: FOLDER",
});

}  // namespace
}  // namespace plimsoll::data
