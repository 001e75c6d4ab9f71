// The images of JPEG and PNG files in folders of their classes, or listed with their labels. A file
// is decoded when a sample reads it; no decoded image stays in memory.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/images/image_augmentation.h"
#include "data/images/image_crops.h"
#include "data/images/image_folder.h"
#include "data/images/image_set.h"

namespace plimsoll::data {

struct FolderReading {
  std::optional<ResizedCrop> crop;  // for training; none: as held-out images
  Augmentation augmentation;        // of what has the canvas' size
  int64_t most_pixels = 0;
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
  struct Decoded {
    ImageSize size;
    std::vector<uint8_t> pixels;  // [H,W,C], in the channels that the model sees
    int32_t label = 0;
  };
  std::string ResizingText() const;  // of held-out images
  Decoded Decode(const std::vector<ImageFile>& files, int64_t number) const;

  ImageFolder folder_;
  ImagePreparation seen_;
  FolderReading reading_;
  mutable std::mutex mutex_;  // of all below
  mutable std::set<std::string> unread_;
  mutable std::string first_problem_;
};

}  // namespace plimsoll::data
