#include "data/volumes/volume_slots.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"

namespace plimsoll::data {
namespace {

constexpr const char* kFilled =
    "they fill images f32[B,D,H,W,C] and labels i32[B,D,H,W], or both without D";

std::optional<PatchShape> PatchOf(const graph::Shape& images) {
  if (images.rank() != 4 && images.rank() != 5) return std::nullopt;
  return PatchShape{.size = {.depth = images.rank() == 5 ? images.dim(1) : 1,
                             .height = images.dim(-3),
                             .width = images.dim(-2)},
                    .channels = images.dim(-1)};
}

// The patch size in the shape of the labels; channels do not matter.
std::optional<VolumeSize> LabelledSizeOf(const graph::Shape& labels) {
  if (labels.rank() != 3 && labels.rank() != 4) return std::nullopt;
  return VolumeSize{.depth = labels.rank() == 4 ? labels.dim(1) : 1,
                    .height = labels.dim(-2),
                    .width = labels.dim(-1)};
}

template <typename T>
std::span<T> PartOf(std::span<T> values, int64_t row, int64_t rows) {
  const size_t each = rows == 0 ? 0 : values.size() / static_cast<size_t>(rows);
  return values.subspan(static_cast<size_t>(row) * each, each);
}

}  // namespace

std::vector<FilledInput> VolumeInputs() { return {{"images", {4, 5}}, {"labels", {3, 4}}}; }

PatchShape PatchOf(const ModelSizes& model) {
  if (const auto patch = PatchOf(model.images)) return *patch;
  if (model.images.rank() == 0) {
    throw UserError(fmt::format(
        "data.source: the model reads no images, and volumes are for models that do; {}", kFilled));
  }
  throw UserError(
      fmt::format("data.source: volumes have nothing for the model's input 'images', {}; {}",
                  model.images.ToString(), kFilled));
}

VolumeSlots::VolumeSlots(const PatchShape& patch, std::span<const graph::Slot> slots) {
  for (const graph::Slot& slot : slots) {
    const graph::TensorType& type = slot.type;
    if (slot.name == "images" && type.dtype == graph::DType::kFloat32 &&
        PatchOf(type.shape) == patch) {
      images_ = slot.values<float>();
    } else if (slot.name == "labels" && type.dtype == graph::DType::kInt32 &&
               LabelledSizeOf(type.shape) == patch.size) {
      labels_ = slot.values<int32_t>();
    } else {
      throw UserError(fmt::format("volumes have nothing for the model's input '{}', {}; {}",
                                  slot.name, type.ToString(), kFilled));
    }
    if (rows_ != 0 && rows_ != type.shape.dim(0)) {
      throw InternalError("inputs of one batch with different numbers of rows");
    }
    rows_ = type.shape.dim(0);
  }
}

std::span<float> VolumeSlots::image(int64_t row) const { return PartOf(images_, row, rows_); }

std::span<int32_t> VolumeSlots::labels(int64_t row) const { return PartOf(labels_, row, rows_); }

}  // namespace plimsoll::data
