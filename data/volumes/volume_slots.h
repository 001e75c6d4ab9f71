// The inputs that volumes fill: "images" f32[B,D,H,W,C] with "labels" i32[B,D,H,W], or without D,
// for models of pictures, which read slices across z.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/source.h"
#include "data/volumes/volume.h"
#include "graph/slot.h"

namespace plimsoll::data {

// What a model reads of a volume: D × H × W voxels, C channels. D = 1: a slice.
struct PatchShape {
  VolumeSize size;
  int64_t channels = 1;

  bool operator==(const PatchShape&) const = default;
};

// The inputs that a source of volumes fills.
std::vector<FilledInput> VolumeInputs();

// Of a model's input "images". UserError (data.source) when it has none of such a shape.
PatchShape PatchOf(const ModelSizes& model);

// The inputs among the slots; a model may do without one of them.
class VolumeSlots {
 public:
  // UserError when a slot is another input, or not of that patch.
  VolumeSlots(const PatchShape& patch, std::span<const graph::Slot> slots);

  int64_t rows() const { return rows_; }
  std::span<float> image(int64_t row) const;     // [D,H,W,C]; empty: not asked for
  std::span<int32_t> labels(int64_t row) const;  // [D,H,W]; empty: not asked for

 private:
  std::span<float> images_;
  std::span<int32_t> labels_;
  int64_t rows_ = 0;
};

}  // namespace plimsoll::data
