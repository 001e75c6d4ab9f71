// Sets of labelled images for training and evaluation, addressed by number and prepared as the
// model sees them. The source "images" reads them: StoredImages, FolderImages.
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

  // The preparation of held-out images, which includes the canvas [H,W,C] that the model sees.
  virtual const ImagePreparation& seen() const = 0;
  virtual int64_t train_count() const = 0;
  virtual int64_t held_out_count() const = 0;

  // Writes the canvas of a training image, augmented by the seed and the sample's number, and
  // returns the image's label. If `to` is empty, only returns the label. Uses scratch memory, which
  // each thread keeps. Throws a UserError when the image cannot be read.
  virtual int32_t DrawTrain(int64_t image, uint64_t seed, int64_t sample,
                            std::span<float> to) const = 0;
  // Like DrawTrain, for a held-out image and without augmentation.
  virtual int32_t DrawHeldOut(int64_t image, std::span<float> to) const = 0;

  // The table of labels, for images with several labels or a numeric label; DrawTrain and
  // DrawHeldOut then return a row of the table. nullptr: each image has one class, and its label is
  // the class.
  virtual const LabelTable* labels() const { return nullptr; }
  // Throws a UserError, which names a file or class, if a label is `bound` or more.
  virtual void CheckLabelsBelow(int64_t bound) const = 0;
  // Explains why the model's image input, whose shape differs from the canvas, cannot be filled,
  // and what to do.
  virtual std::string WhyNot(const graph::Slot& slot) const = 0;
  // A summary such as "60000 images of 28 × 28 × 1 in 10 classes".
  virtual std::string Summary() const = 0;
  // Describes the preparation, in lines that each begin with two spaces.
  virtual std::string PreparationLines() const = 0;
  // Implements Source::Unread.
  virtual std::string Unread() const { return ""; }
};

// Images from the files of standard data sets (image_files.h), kept in memory as bytes.
class StoredImages final : public ImageSet {
 public:
  // `folder` is the images' folder, for messages. `seen` has the size of the files' images.
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

// How FolderImages reads the JPEG and PNG files of an image folder. A file is decoded when a sample
// reads it; no decoded image stays in memory.
struct FolderReading {
  std::optional<ResizedCrop> crop;  // crop of training images; nullopt: prepared as held-out images
  Augmentation augmentation;        // applied to images of the canvas' size
  int64_t most_pixels = 0;
  bool fast = false;  // decode JPEG files for training faster and approximately
  // What happens when an image cannot be read. true: the next readable image in the folder's order
  // takes its place, with its own label. false: a UserError.
  bool skip_unreadable = false;
};

class FolderImages final : public ImageSet {
 public:
  // `seen` must be for images of any size, with one or three channels.
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
  // An image's decoded pixels, as far as its resized version needs them.
  struct Decoded {
    formats::RasterPart part;
    PictureResize resize;
    int64_t shrink = 1;
    int32_t label = 0;
  };
  // Maps a picture's size to how it is resized.
  using ResizeOf = FunctionRef<PictureResize(const ImageSize&)>;

  std::string ResizingText() const;  // describes the resizing of held-out images
  Decoded Decode(const std::vector<ImageFile>& files, int64_t number, bool fast,
                 ResizeOf resize_of) const;
  // The resized image [H,W,C], in the model's channels.
  std::vector<uint8_t> Fitted(Decoded image) const;

  ImageFolder folder_;
  ImagePreparation seen_;
  FolderReading reading_;
  mutable std::mutex mutex_;  // guards all members below
  mutable std::set<std::string> unread_;
  mutable std::string first_problem_;
};

// The settings of the source "images" (image_settings.cc).
std::vector<Setting> ImageSettings();

struct NamedImages {
  std::shared_ptr<const ImageSet> images;
  std::vector<std::string> class_names;  // empty if the classes have no names
};

// Opens the images that the settings name: files in MNIST's or CIFAR-10's format, or folders of
// JPEG and PNG files. SettingError: the folder has no images, or a setting does not apply to these
// images or to the model.
NamedImages ImagesFrom(const Settings& settings, const ModelSizes& model);

// Implements SourceKind::follow.
std::vector<std::string> FollowPreparation(Settings& settings,
                                           const std::function<ImagePreparation()>& read);

// Implements SourceKind::follow_maker: derives a mean and a standard deviation of ½. Training, too,
// then uses uncropped images, resized to the size of the images that the model makes.
std::vector<std::string> FollowMaker(Settings& settings, int64_t height, int64_t width);

ImageMixing MixingFrom(const Settings& settings);

// Implements SourceKind::count_classes.
std::optional<int64_t> CountImageClasses(const Settings& settings, LabelKind kind);

// True if some images are held out.
bool HoldsOutImages(const Settings& settings);

}  // namespace plimsoll::data
