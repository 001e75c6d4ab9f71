// Pictures of a segmentation model's predictions for the first held-out samples, for the report of
// a run and the folder slices/. Each rank collects its own samples. Gather() combines them to the
// pictures that a single rank would show.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "trainer/resolve/ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// Maps a sample's number to its PNG file.
using SlicePictures = std::map<int64_t, std::vector<uint8_t>>;

class Slices {
 public:
  static constexpr int64_t kMost = 4;    // number of samples
  static constexpr int64_t kSide = 128;  // length of a panel's longer side, in pixels
  // The colours of classes 1, 2, …; colours repeat after the last one.
  static constexpr const char* kColours = "red, green, blue, yellow, magenta, cyan";

  // Collects pictures from the batch that `session` has evaluated last; `first` is the number of
  // its first sample among the held-out samples. Does nothing unless the program leaves the logits
  // of each label (kClassLogits) and reads the inputs "images", f32[B,H,W,C] or f32[B,D,H,W,C], and
  // "labels", i32 of that shape without C.
  void Add(Session& session, int64_t first);

  // The pictures of all ranks, on every rank. All ranks call this.
  //
  // A picture has three panels side by side: the first channel of a slice across D, with stretched
  // brightness; the same with the labels in colours; and with the predicted classes in colours. The
  // slice is the one with the most labels above 0.
  SlicePictures Gather(Ranks& ranks) const;

 private:
  SlicePictures own_;
};

}  // namespace plimsoll::trainer
