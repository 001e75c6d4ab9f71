// Labelled images to train on and held out, by their numbers, as a model sees them. What the source
// "images" reads: stored_images.h, folder_images.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/images/image_preparation.h"
#include "data/labels.h"
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

}  // namespace plimsoll::data
