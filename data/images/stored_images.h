// The images of files as data sets have them (image_files.h), in memory as bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/images/image_augmentation.h"
#include "data/images/image_files.h"
#include "data/images/image_set.h"

namespace plimsoll::data {

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

}  // namespace plimsoll::data
