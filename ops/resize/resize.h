// Interpolation of images and volumes to another size (nearest, bilinear, trilinear), like
// PyTorch's F.interpolate for a given size.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

enum class ResizeMode : uint8_t { kNearest, kLinear };

struct ResizeOptions {
  // Linear means bilinear for images, trilinear for volumes.
  ResizeMode mode = ResizeMode::kLinear;
  // For linear interpolation: whether the centers of the first and last pixels of x and y are at
  // the same positions. If not, the borders of the images are.
  bool align_corners = false;
};

// The attributes of both ops. `size` is the size of the result. Throws InternalError for more than
// three dimensions.
graph::Attributes ResizeAttributes(std::span<const int64_t> size, const ResizeOptions& options);

// Images x[B,H,W,C] or volumes x[B,D,H,W,C] of any floating type → y of the same type, with the
// size {H',W'} or {D',H',W'}. Interpolates in float32 (double for double). Which pixels are read,
// with which weights, is the same on all devices (ops/resize/resize_axis.h). Throws InternalError
// for other shapes, for dimensions of 0 or more than 2^15 pixels, and for images of 2^31 elements
// or more.
graph::Value Resize(graph::Builder& g, graph::Value x, std::span<const int64_t> size,
                    const ResizeOptions& options = {}, std::string_view name = "");

}  // namespace plimsoll::ops
