// A picture of the images that a model makes, side by side in a square, for the report of a run and
// the folder samples/.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/step/session.h"

namespace plimsoll::trainer {

class SampleGrid {
 public:
  static constexpr int64_t kMost = 64;  // images

  // Takes those of the batch that `session` has evaluated last, after earlier ones. Does nothing
  // unless the program leaves images (kMadeImages), with one channel or three.
  void Add(Session& session);

  // A PNG file; empty: there are no images.
  std::vector<uint8_t> Png() const;

 private:
  int64_t height_ = 0, width_ = 0, channels_ = 0;
  std::vector<float> images_;  // [N,H,W,C]
};

}  // namespace plimsoll::trainer
