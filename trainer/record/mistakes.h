// The held-out images that a classifier gets wrong with the highest confidence, for the report of a
// run. Each rank collects such images among its own samples. Gather() combines them into the list
// that a single rank would find.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "trainer/resolve/ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

class Mistakes {
 public:
  static constexpr size_t kMost = 24;  // most images to keep
  // Length of the longer side in pixels; larger images are scaled down.
  static constexpr int64_t kSide = 64;

  // Collects mistakes in the batch that `session` has evaluated last; `first` is the number of its
  // first sample among the held-out ones. Does nothing unless the program leaves each sample's
  // logits (kClassLogits) and reads the inputs "images", f32[B,H,W,1 or 3], and "labels", i32[B].
  void Add(Session& session, int64_t first);

  // The mistakes of all ranks, on every rank. All ranks call this.
  //
  // The worst comes first, and of equal ones the smaller sample number: [{"sample": its number,
  // "label": …, "prediction": …, "share": probability of the prediction, "width": …, "height": …,
  // "pixels": base64 of red, green and blue bytes, row by row}, …].
  //
  // Brightness is stretched for each image, since sources normalise pixels in their own ways.
  nlohmann::ordered_json Gather(Ranks& ranks) const;

 private:
  struct Image {
    int64_t sample = 0, label = 0, prediction = 0;
    double share = 0;
    int64_t width = 0, height = 0;
    std::vector<uint8_t> pixels;  // colours, RGB
  };
  nlohmann::ordered_json Json() const;

  std::vector<Image> worst_;  // this rank's mistakes, from the worst on
};

}  // namespace plimsoll::trainer
