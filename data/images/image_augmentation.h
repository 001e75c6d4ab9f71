// Data augmentation of images in training: an image is padded, shifted and flipped at random, as
// torchvision's Pad, RandomCrop and RandomHorizontalFlip do, changed in its colours and by
// RandAugment's operations, and partly erased. h × w image, H × W canvas that the model sees, C
// channels.
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

// Which part of an image training sees: torchvision's RandomResizedCrop (Szegedy et al. 2015,
// "Going deeper with convolutions", section 6): a
// box of a random part of the image's area with a random ratio of its sides, which is then
// resized to what the model sees.
struct ResizedCrop {
  std::array<double, 2> scale = {0.08, 1};           // of the area: from, to
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};  // width by height, drawn evenly in logarithms

  // The box lies in the image. After ten tries that don't, it is the largest one in the middle
  // whose ratio is in range.
  ImageBox Draw(const ImageSize& image, SampleRandom& random) const;
};

// Changes of an image's colours at random, as torchvision's ColorJitter makes them.
// Brightness, contrast and saturation get a factor drawn from 1 ± these, none below 0; the hue is
// turned by a part of the circle drawn from 0 ± `hue`, at most ½. 0: it stays.
struct ColourJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;

  bool any() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0; }
  // Changes the image [H,W,C] in an order that is drawn, too. `scratch` has at least as many bytes.
  void Change(SampleRandom& random, const ImageSize& size, std::span<uint8_t> image,
              std::span<uint8_t> scratch) const;
};

// Turns the hue of each pixel by `turn`, −½ to ½ of the circle, in Pillow's HSV of bytes: as
// torchvision's adjust_hue of Pillow's images. Images of one channel have no hue.
void TurnHue(double turn, int64_t channels, std::span<uint8_t> image);

struct Placement {
  // Where the canvas has the image's first pixel; both are negative where the canvas cuts it off.
  int64_t top = 0, left = 0;
  bool flipped = false;  // the canvas is mirrored afterwards, left to right
};

// What training does to images. Evaluations do none of it.
struct Augmentation {
  // The canvas gets so many zeros on each side, and a random part of the size of the canvas is cut
  // out of that.
  int64_t crop_padding = 0;
  bool flip = false;  // with probability ½
  ColourJitter jitter = {};
  int64_t operations = 0;  // of RandAugment, one after the other
  int64_t strength = 9;    // theirs, below kStrengths
  double erase_probability = 0;

  // All that is drawn depends on the seed and the sample's number alone.
  Placement Draw(const Placement& centred, uint64_t seed, int64_t sample) const;
  // True if Change does anything.
  bool changes_bytes() const { return operations > 0 || jitter.any(); }
  // Changes the canvas [H,W,C]: first its colours, then by RandAugment's operations. `scratch` has
  // at least as many bytes.
  void Change(uint64_t seed, int64_t sample, const ImageSize& canvas, std::span<uint8_t> bytes,
              std::span<uint8_t> scratch) const;
  // What is erased of the canvas. Zhong et al. 2020, "Random Erasing Data Augmentation", algorithm
  // 1, with the sizes and tries of torchvision's RandomErasing.
  std::optional<ImageBox> DrawErasing(uint64_t seed, int64_t sample, const ImageSize& canvas) const;
  // Erases that of the normalised canvas.
  void Erase(uint64_t seed, int64_t sample, const ImageSize& canvas, std::span<float> values) const;
  // What it does to images once they have the canvas' size, in lines that begin with two spaces.
  std::string ChangesText() const;
};

// The image in the middle of a canvas that is at least as large; an odd pixel more is below it or
// to its right.
Placement Centred(const ImageSize& image, const ImageSize& canvas);

// Writes the canvas [H,W,C] with the image [h,w,C] where it was placed. Pixels that the image does
// not cover are zeros, and normalised as such.
void DrawImage(std::span<const uint8_t> pixels, const ImageSize& image, const Placement& placement,
               const NormalisedBytes& normalised, const ImageSize& canvas, std::span<float> out);
// The same as bytes.
void PlaceImage(std::span<const uint8_t> pixels, const ImageSize& image, const Placement& placement,
                const ImageSize& canvas, std::span<uint8_t> out);
// Sets the box of normalised values to 0: the mean, where the images' own was subtracted.
void EraseBox(const ImageBox& box, const ImageSize& canvas, std::span<float> values);

}  // namespace plimsoll::data
