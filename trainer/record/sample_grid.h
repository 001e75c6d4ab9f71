// A picture of the images that a model makes, side by side in a square, for the report of a run and
// the folder samples/. Each rank takes those of its own samples; Gather() makes of them what a
// single rank would have.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "trainer/resolve/ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// The nearest of 256 steps from black, −1, to white, 1; beyond these, black or white. Not of NaN.
inline uint8_t Brightness(float value) {
  return static_cast<uint8_t>(std::lround(255 * (std::clamp(value, -1.0f, 1.0f) + 1) / 2));
}

class SampleGrid {
 public:
  static constexpr int64_t kMost = 64;  // images, of the first samples

  // Takes those of the batch that `session` has evaluated last, whose first sample is number
  // `first` of `samples`; rows after the last sample only fill the batch. Does nothing unless the
  // program leaves images (kMadeImages), with one channel or three.
  void Add(Session& session, int64_t first, int64_t samples);

  // Takes those of all ranks. All ranks call.
  void Gather(Ranks& ranks);

  // A PNG file; empty: there are no images.
  std::vector<uint8_t> Png() const;

 private:
  int64_t height_ = 0, width_ = 0, channels_ = 0;
  std::map<int64_t, std::vector<uint8_t>> images_;  // [H,W,C], by sample
};

}  // namespace plimsoll::trainer
