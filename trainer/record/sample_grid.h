// A picture of the images that a model generates, in a square grid, for the report of a run and the
// folder samples/. Each rank collects the images of its own samples. Gather() combines them to the
// images that a single rank would have.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "trainer/resolve/ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// Converts −1 (black) … 1 (white) to the nearest of 256 steps; values outside are clamped. `value`
// must not be NaN.
inline uint8_t Brightness(float value) {
  return static_cast<uint8_t>(std::lround(255 * (std::clamp(value, -1.0f, 1.0f) + 1) / 2));
}

class SampleGrid {
 public:
  static constexpr int64_t kMost = 64;  // number of images; they show the first samples

  // Collects images from the batch that `session` has evaluated last. `first` is the number of the
  // batch's first sample among `samples` samples; rows after the last sample only fill the batch.
  // Does nothing unless the program leaves images (kMadeImages) with one or three channels.
  void Add(Session& session, int64_t first, int64_t samples);

  // Collects the images of all ranks. All ranks call this.
  void Gather(Ranks& ranks);

  // The grid as a PNG file; empty if there are no images.
  std::vector<uint8_t> Png() const;

 private:
  int64_t height_ = 0, width_ = 0, channels_ = 0;
  std::map<int64_t, std::vector<uint8_t>> images_;  // maps a sample's number to its image [H,W,C]
};

}  // namespace plimsoll::trainer
