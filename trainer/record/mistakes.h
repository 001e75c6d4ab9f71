// The held-out images about which a classifier is most sure and wrong, for the report of a run.
// Each rank notes those among its own samples; Gather() makes of them what a single rank would
// find.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "trainer/resolve/ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

class Mistakes {
 public:
  static constexpr size_t kMost = 24;   // images
  static constexpr int64_t kSide = 64;  // pixels: larger images are made smaller

  // Takes note of the batch that `session` has evaluated last, whose first sample is number `first`
  // of those that are held out. Does nothing unless the program leaves each sample's logits
  // (kClassLogits) and reads the inputs "images", f32[B,H,W,1 or 3], and "labels", i32[B].
  void Add(Session& session, int64_t first);

  // Those of all ranks, on every rank. All ranks call.
  //
  // The worst first, of equal ones that of the smaller number: [{"sample": its number, "label": …,
  // "prediction": …, "share": probability of the prediction, "width": …, "height": …, "pixels":
  // base64 of red, green and blue bytes, row by row}, …]. Brightness is stretched over each image,
  // since sources normalise pixels in their own ways.
  nlohmann::ordered_json Gather(Ranks& ranks) const;

 private:
  struct Image {
    int64_t sample = 0, label = 0, prediction = 0;
    double share = 0;
    int64_t width = 0, height = 0;
    std::vector<uint8_t> pixels;  // RGB
  };
  nlohmann::ordered_json Json() const;

  std::vector<Image> worst_;  // of this rank, the worst first
};

}  // namespace plimsoll::trainer
