// Labelled images to train on and held out, by their numbers, as a model sees them. What the source
// "images" reads: StoredImages, FolderImages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/settings.h"
#include "data/images/image_augmentation.h"
#include "data/images/image_files.h"
#include "data/images/image_folder.h"
#include "data/images/image_mixing.h"
#include "data/images/image_preparation.h"
#include "data/images/picture_scaling.h"
#include "data/labels.h"
#include "data/source.h"
#include "formats/raster.h"
#include "graph/slot.h"

namespace plimsoll::data {

class ImageSet {
 public:
  virtual ~ImageSet() = default;

  // How held-out images are prepared, and the canvas [H,W,C] that a model sees.
  virtual const ImagePreparation& seen() const = 0;
  virtual int64_t train_count() const = 0;
  virtual int64_t held_out_count() const = 0;

  // Writes the canvas of an image to train on, augmented as the seed and the sample's number say,
  // and gives back its label. An empty `to`: the label alone. Takes scratch memory, which each
  // thread keeps. UserError when the image cannot be read.
  virtual int32_t DrawTrain(int64_t image, uint64_t seed, int64_t sample,
                            std::span<float> to) const = 0;
  // The same of a held-out image, which nothing changes.
  virtual int32_t DrawHeldOut(int64_t image, std::span<float> to) const = 0;

  // The labels of images with several, or with a number, of which what is drawn gives back the row;
  // nullptr: each image is of one class, and its label is the class.
  virtual const LabelTable* labels() const { return nullptr; }
  // UserError, which names a file or class, on a label from `bound` on.
  virtual void CheckLabelsBelow(int64_t bound) const = 0;
  // Why the model's input of images, of another shape than the canvas, gets none, and the way out.
  virtual std::string WhyNot(const graph::Slot& slot) const = 0;
  // "60000 images of 28 × 28 × 1 in 10 classes".
  virtual std::string Summary() const = 0;
  // How they are prepared, in lines that each begin with two spaces.
  virtual std::string PreparationLines() const = 0;
  // As Source::Unread.
  virtual std::string Unread() const { return ""; }
};

// The images of files as data sets have them (image_files.h), in memory as bytes.
class StoredImages final : public ImageSet {
 public:
  // `folder` is where they are, for messages; `seen` has the size of the files' images.
  StoredImages(std::string folder, ImageFiles files, ImagePreparation seen,
               const Augmentation& augmentation);

  const ImagePreparation& seen() const override { return seen_; }
  int64_t train_count() const override { return files_.train.count(); }
  int64_t held_out_count() const override { return files_.test.count(); }
  int32_t DrawTrain(int64_t image, uint64_t seed, int64_t sample,
                    std::span<float> to) const override;
  int32_t DrawHeldOut(int64_t image, std::span<float> to) const override;
  void CheckLabelsBelow(int64_t bound) const override;
  std::string WhyNot(const graph::Slot& slot) const override;
  std::string Summary() const override;
  std::string PreparationLines() const override;

 private:
  std::string folder_;
  ImageFiles files_;
  ImagePreparation seen_;
  Augmentation augmentation_;
};

// The images of JPEG and PNG files in folders of their classes, or listed with their labels. A file
// is decoded when a sample reads it; no decoded image stays in memory.
struct FolderReading {
  std::optional<ResizedCrop> crop;  // for training; none: as held-out images
  Augmentation augmentation;        // of what has the canvas' size
  int64_t most_pixels = 0;
  bool fast = false;  // for training, JPEG files are decoded to pixels that are near theirs
  // An image that cannot be read: true: the next one in the folder's order that can is in its
  // place, with its own label; false: a UserError.
  bool skip_unreadable = false;
};

class FolderImages final : public ImageSet {
 public:
  // `seen` is of images of any size, with one or three channels.
  FolderImages(ImageFolder folder, ImagePreparation seen, const FolderReading& reading);

  const ImagePreparation& seen() const override { return seen_; }
  int64_t train_count() const override { return std::ssize(folder_.train); }
  int64_t held_out_count() const override { return std::ssize(folder_.held_out); }
  int32_t DrawTrain(int64_t image, uint64_t seed, int64_t sample,
                    std::span<float> to) const override;
  int32_t DrawHeldOut(int64_t image, std::span<float> to) const override;
  const LabelTable* labels() const override {
    return folder_.labels.count() > 0 ? &folder_.labels : nullptr;
  }
  void CheckLabelsBelow(int64_t bound) const override;
  std::string WhyNot(const graph::Slot& slot) const override;
  std::string Summary() const override;
  std::string PreparationLines() const override;
  std::string Unread() const override;

  const std::vector<std::string>& classes() const { return folder_.classes; }

 private:
  // An image's pixels as far as they take part in what it becomes.
  struct Decoded {
    formats::RasterPart part;
    PictureResize resize;
    int64_t shrink = 1;
    int32_t label = 0;
  };
  // What a picture of that size becomes.
  using ResizeOf = FunctionRef<PictureResize(const ImageSize&)>;

  std::string ResizingText() const;  // of held-out images
  Decoded Decode(const std::vector<ImageFile>& files, int64_t number, bool fast,
                 ResizeOf resize_of) const;
  // [H,W,C] of what the image becomes, in the channels that the model sees.
  std::vector<uint8_t> Fitted(Decoded image) const;

  ImageFolder folder_;
  ImagePreparation seen_;
  FolderReading reading_;
  mutable std::mutex mutex_;  // guards all members below
  mutable std::set<std::string> unread_;
  mutable std::string first_problem_;
};

// The settings of the source "images" (image_settings.cc), and the images that they name.
std::vector<Setting> ImageSettings();

struct NamedImages {
  std::shared_ptr<const ImageSet> images;
  std::vector<std::string> class_names;  // empty: they have none
};

// Files of MNIST's or CIFAR-10's form, or folders of JPEG and PNG files, as the folder has them.
// SettingError: there are none, or a setting is not for them or not for the model.
NamedImages ImagesFrom(const Settings& settings, const ModelSizes& model);

// SourceKind::follow.
std::vector<std::string> FollowPreparation(Settings& settings,
                                           const std::function<ImagePreparation()>& read);

// SourceKind::follow_maker: derives a mean and a standard deviation of ½. Training, too, then uses
// uncropped images, resized to the size of the images that the model makes.
std::vector<std::string> FollowMaker(Settings& settings, int64_t height, int64_t width);

ImageMixing MixingFrom(const Settings& settings);

// SourceKind::count_classes.
std::optional<int64_t> CountImageClasses(const Settings& settings, LabelKind kind);

// True if images are held out.
bool HoldsOutImages(const Settings& settings);

}  // namespace plimsoll::data
