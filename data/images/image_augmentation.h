// Data augmentation of images for training. An image is padded, shifted and flipped at random, as
// by torchvision's Pad, RandomCrop and RandomHorizontalFlip; its colours are changed; RandAugment's
// operations are applied; a part is erased. The image is h × w, the canvas that the model sees H ×
// W, with C channels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data/images/image_files.h"
#include "data/images/image_mixing.h"
#include "data/images/image_normalisation.h"
#include "data/images/image_operations.h"
#include "data/sample_random.h"

namespace plimsoll::data {

// torchvision's RandomResizedCrop (Szegedy et al. 2015, "Going deeper with convolutions", section
// 6): training sees a box of the image with a random area and a random aspect ratio. The box is
// then resized to the model's input size.
struct ResizedCrop {
  std::array<double, 2> scale = {0.08, 1};  // range of the box's share of the image's area
  // Range of width / height, drawn uniformly in its logarithm.
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};

  // Draws a box within the image. If ten tries fail, returns the largest centred box whose ratio is
  // in range.
  ImageBox Draw(const ImageSize& image, SampleRandom& random) const;
};

// Random changes of an image's colours, as by torchvision's ColorJitter. Brightness, contrast and
// saturation are multiplied by a factor drawn from 1 ± the member, but at least 0. The hue is
// rotated by a part of the circle drawn from 0 ± `hue`, at most ½. A member of 0 means no change.
struct ColourJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;

  bool any() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0; }
  // Changes the image [H,W,C]. The order of the changes is random, too. `scratch` must be at least
  // as large as the image.
  void Change(SampleRandom& random, const ImageSize& size, std::span<uint8_t> image,
              std::span<uint8_t> scratch) const;
};

// Rotates the hue of each pixel by `turn`, −½ to ½ of the circle, in Pillow's 8-bit HSV, as
// torchvision's adjust_hue does for Pillow's images. Images of one channel have no hue and do not
// change.
void TurnHue(double turn, int64_t channels, std::span<uint8_t> image);

struct Placement {
  // The canvas position of the image's first pixel. Both are negative where the canvas cuts the
  // image off.
  int64_t top = 0, left = 0;
  bool flipped = false;  // whether the canvas is mirrored afterwards, left to right
};

// The augmentation of training images. Evaluation applies none of it.
struct Augmentation {
  // This number of zeros is padded on each side of the canvas; then a random window of the canvas'
  // size is cut out.
  int64_t crop_padding = 0;
  bool flip = false;  // whether to flip, with probability ½
  ColourJitter jitter = {};
  int64_t operations = 0;  // the number of RandAugment's operations, applied in sequence
  int64_t strength = 9;    // the strength of these operations, below kStrengths
  double erase_probability = 0;

  // All random draws depend only on the seed and the sample's number.
  Placement Draw(const Placement& centred, uint64_t seed, int64_t sample) const;
  // True if Change has an effect.
  bool changes_bytes() const { return operations > 0 || jitter.any(); }
  // Changes the canvas [H,W,C]: first its colours, then RandAugment's operations. `scratch` must be
  // at least as large as the canvas.
  void Change(uint64_t seed, int64_t sample, const ImageSize& canvas, std::span<uint8_t> bytes,
              std::span<uint8_t> scratch) const;
  // Draws the box of the canvas to erase. Zhong et al. 2020, "Random Erasing Data Augmentation",
  // algorithm 1, with the sizes and tries of torchvision's RandomErasing.
  std::optional<ImageBox> DrawErasing(uint64_t seed, int64_t sample, const ImageSize& canvas) const;
  // Erases the box that DrawErasing draws, in a normalised canvas.
  void Erase(uint64_t seed, int64_t sample, const ImageSize& canvas, std::span<float> values) const;
  // Describes the changes of images that already have the canvas' size, in lines that begin with
  // two spaces.
  std::string ChangesText() const;
};

// Places the image in the middle of a canvas that is at least as large. An odd remaining pixel is
// below the image or to its right.
Placement Centred(const ImageSize& image, const ImageSize& canvas);

// Writes the canvas [H,W,C] with the image [h,w,C] at its placement. Pixels that the image does not
// cover are zero bytes, normalised like any other.
void DrawImage(std::span<const uint8_t> pixels, const ImageSize& image, const Placement& placement,
               const NormalisedBytes& normalised, const ImageSize& canvas, std::span<float> out);
// Like DrawImage, but writes bytes without normalisation.
void PlaceImage(std::span<const uint8_t> pixels, const ImageSize& image, const Placement& placement,
                const ImageSize& canvas, std::span<uint8_t> out);
// Sets the box to 0 in normalised values. 0 is the images' mean if that was subtracted.
void EraseBox(const ImageBox& box, const ImageSize& canvas, std::span<float> values);

}  // namespace plimsoll::data
