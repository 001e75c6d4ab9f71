// The inputs that volumes fill: "images" f32[B,D,H,W,C] with "labels" i32[B,D,H,W]. Without D, the
// inputs are those of 2-D models, which read slices across z.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/source.h"
#include "data/volumes/volume.h"
#include "graph/slot.h"

namespace plimsoll::data {

// The part of a volume that a model reads: D × H × W voxels, C channels. D = 1: a slice.
struct PatchShape {
  VolumeSize size;
  int64_t channels = 1;

  bool operator==(const PatchShape&) const = default;
};

// The model inputs that a source of volumes fills.
std::vector<FilledInput> VolumeInputs();

// The patch in the shape of a model's input "images". Throws a UserError (data.source) when the
// model has no such input.
PatchShape PatchOf(const ModelSizes& model);

// The source's inputs among the slots. A model may lack one of them.
class VolumeSlots {
 public:
  // Throws a UserError when a slot is another input or does not match the patch.
  VolumeSlots(const PatchShape& patch, std::span<const graph::Slot> slots);

  int64_t rows() const { return rows_; }
  std::span<float> image(int64_t row) const;     // [D,H,W,C]; empty if the model does not read it
  std::span<int32_t> labels(int64_t row) const;  // [D,H,W]; empty if the model does not read it

 private:
  std::span<float> images_;
  std::span<int32_t> labels_;
  int64_t rows_ = 0;
};

}  // namespace plimsoll::data
