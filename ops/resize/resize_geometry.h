// The sizes of a resize op, as its kernels use them.
#pragma once

#include <cstdint>

#include "graph/op.h"
#include "ops/resize/resize_axis.h"

namespace plimsoll::ops {

// Sizes of x and y along each dimension. Images have a depth of 1 in both.
template <typename Axis>
struct ResizeGeometry {
  int64_t batch, channels;
  Axis depth, rows, columns;

  // The number of elements of an image of x, and of an image of y.
  constexpr int64_t in_elements() const {
    return int64_t{depth.in} * rows.in * columns.in * channels;
  }
  constexpr int64_t out_elements() const {
    return int64_t{depth.out} * rows.out * columns.out * channels;
  }
};

// Calls body(ResizeGeometry<NearestAxis or LinearAxis>) for images or volumes x and y, whose shapes
// inference has checked.
template <typename Body>
void WithResizeGeometry(const graph::Attributes& attributes, const graph::Shape& x,
                        const graph::Shape& y, const Body& body) {
  const auto call = [&]<typename Axis>(const auto&... options) {
    const auto axis = [&](int from_end) {
      const bool there = x.rank() + from_end > 0;
      return Axis(there ? x.dim(from_end) : 1, there ? y.dim(from_end) : 1, options...);
    };
    body(ResizeGeometry<Axis>{x.dim(0), x.dim(-1), axis(-4), axis(-3), axis(-2)});
  };
  if (attributes.GetWord("mode") == "nearest") {
    call.template operator()<NearestAxis>();
  } else {
    call.template operator()<LinearAxis>(attributes.GetBool("align_corners"));
  }
}

}  // namespace plimsoll::ops
