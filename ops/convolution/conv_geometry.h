// The sizes of a convolution, as its kernels see them.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "graph/op.h"

namespace plimsoll::ops {

// Sizes along depth, height and width; images have a depth of 1.
using Spatial = std::array<int64_t, 3>;

inline int64_t Volume(const Spatial& extent) { return extent[0] * extent[1] * extent[2]; }

struct ConvGeometry {
  int64_t batch = 0;
  int64_t in_channels = 0, out_channels = 0;  // I, O
  int64_t groups = 1;
  Spatial in = {1, 1, 1}, kernel = {1, 1, 1}, out = {1, 1, 1};
  Spatial stride = {1, 1, 1}, pad = {0, 0, 0}, dilation = {1, 1, 1};

  int64_t rows_in() const { return batch * Volume(in); }    // number of pixels of x
  int64_t rows_out() const { return batch * Volume(out); }  // number of pixels of y
  int64_t taps() const { return Volume(kernel); }
  int64_t group_in() const { return in_channels / groups; }
  int64_t group_out() const { return out_channels / groups; }
  // The number of input elements that one output element of a group depends on: a row of its
  // weight.
  int64_t patch() const { return taps() * group_in(); }
  bool pointwise() const { return taps() == 1 && Volume(stride) == 1 && pad == Spatial{0, 0, 0}; }
  // Whether the convolution is one matrix product, of pixels by the weight.
  bool linear() const { return pointwise() && groups == 1; }
  friend auto operator<=>(const ConvGeometry&, const ConvGeometry&) = default;
};

// The geometry of a call, from the shapes of x and weight and the call's attributes. Throws
// InternalError, in the name of the call's op, when they do not fit.
ConvGeometry GeometryOf(const graph::OpCall& call, const graph::Shape& x,
                        const graph::Shape& weight);
// The geometry of a call of conv, conv_dx, conv_dw or conv_transpose, which take x and weight from
// different arguments. That of conv_transpose is the geometry of the convolution from its result to
// x.
ConvGeometry GeometryOf(const graph::OpCall& call);
// The shape of y.
graph::Shape OutputShape(const ConvGeometry& geometry, size_t rank);

}  // namespace plimsoll::ops
