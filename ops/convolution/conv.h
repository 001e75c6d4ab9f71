// Convolutions of images and volumes, transposed ones, and their gradients. I input channels, O
// output channels, G groups, R × S the kernel. Images are stored with their channels last (NHWC),
// and so are weights.
//
//   conv            y[B,OH,OW,O] = x[B,H,W,I] * weight[O,R,S,I/G] + bias[O]
//   conv_dx         dx[B,H,W,I]                          (+ acc)
//   conv_dw         dweight[O,R,S,I/G], dbias[O] = Σ dy  (+ acc_weight, acc_bias)
//   conv_transpose  y[B,OH,OW,O] = dx of the convolution from y to x[B,H,W,I], whose weight is
//                   [I,R,S,O/G], + bias[O]
//
// Like PyTorch's conv2d, conv is a cross-correlation:
//   y[b,h,w,o] = bias[o] + Σ_{r,s,i} x[b, h·stride − pad + r·dilation, w·…, i] · weight[o,r,s,i],
// with zeros outside x; group g computes the outputs g·O/G … from the inputs g·I/G …. Volumes have
// one more dimension, before the height: x[B,D,H,W,I], weight[O,Q,R,S,I/G]. conv_transpose is
// conv_transpose2d and conv_transpose3d (Zeiler et al. 2010, "Deconvolutional Networks"). Its
// gradients are those of the convolution that it transposes: conv of dy, and conv_dw.
//
// Activations, weight and bias (and dx's acc) have one float dtype; dweight, dbias and their acc
// have its compute type. Products of 16-bit values are summed in float32 and rounded once, after
// bias or acc is added. The attribute tf32 is that of `linear`. The gradient ops may write over
// their acc input. Errors: InternalError on shapes that do not fit.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// The window along depth, height and width. Images don't use the depth.
struct ConvWindow {
  std::array<int64_t, 3> stride = {1, 1, 1};
  std::array<int64_t, 3> pad = {0, 0, 0};  // zeros before the first and after the last element
  std::array<int64_t, 3> dilation = {1, 1, 1};
  int64_t groups = 1;
};

// Convolves images (rank 4) or volumes (rank 5). bias = kNoTensor means no bias.
graph::Value Conv(graph::Builder& g, graph::Value x, graph::Value weight,
                  graph::Value bias = graph::kNoTensor, const ConvWindow& window = {},
                  std::string_view name = "");

// Along each dimension, y has (H − 1)·stride − 2·pad + dilation·(R − 1) + 1 + more pixels, as in
// PyTorch. `more` selects among the sizes of y for which the convolution gives the same size of x:
// 0 ≤ more < stride.
graph::Value ConvTranspose(graph::Builder& g, graph::Value x, graph::Value weight,
                           graph::Value bias = graph::kNoTensor, const ConvWindow& window = {},
                           const std::array<int64_t, 3>& more = {0, 0, 0},
                           std::string_view name = "");

}  // namespace plimsoll::ops
