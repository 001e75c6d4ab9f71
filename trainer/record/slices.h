// Pictures of what a model of segmentation makes of the first held-out samples, for the report of a
// run and the folder slices/. Each rank notes its own samples; Gather() makes of them what a single
// rank would show.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "trainer/resolve/ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// PNG files by the number of their sample.
using SlicePictures = std::map<int64_t, std::vector<uint8_t>>;

class Slices {
 public:
  static constexpr int64_t kMost = 4;    // samples
  static constexpr int64_t kSide = 128;  // pixels of a panel's larger side
  // Of the classes 1, 2, …; then they begin again.
  static constexpr const char* kColours = "red, green, blue, yellow, magenta, cyan";

  // Takes note of the batch that `session` has evaluated last, whose first sample is number `first`
  // of those that are held out. Does nothing unless the program leaves the logits (kClassLogits) of
  // each label and reads the inputs "images", f32[B,H,W,C] or f32[B,D,H,W,C], and "labels", i32 of
  // that shape without C.
  void Add(Session& session, int64_t first);

  // Those of all ranks, on every rank. All ranks call.
  //
  // A picture has three panels side by side: the first channel of a slice across D, its brightness
  // stretched; the same with the labels in colours; with the likeliest classes. The slice is the
  // one with the most labels above 0.
  SlicePictures Gather(Ranks& ranks) const;

 private:
  SlicePictures own_;
};

}  // namespace plimsoll::trainer
