// More channels for convolutions whose input has few, such as the stem of a model for images.
// Tensor cores read pixels in units of 16 bytes: on an H200, the stem of a ResNet for 128 images in
// fp16 takes 1.7 ms of a step with 3 channels, and 1.1 ms with 8.
//
// A kernel of several pixels with a stride of 2 gets its channels from neighbouring pixels. A block
// of 2 × 2 pixels of x becomes one pixel, and the kernel shrinks likewise:
//
//   %y = conv(%x, %weight) {stride_h=2, stride_w=2, pad_h=3, pad_w=3}
//
// becomes, for images of 224 × 224 × 3 and a kernel of 7 × 7,
//
//   %x' = space_to_depth(%x) {block=2, channels=16, height=115, width=115, pad_h=3, pad_w=3}
//   %weight' = space_to_depth(%weight) {block=2, channels=16, height=4, width=4, pad_h=0, pad_w=0}
//   %y = conv(%x', %weight') {stride_h=1, stride_w=1, pad_h=0, pad_w=0}
//
// Row 2i − pad + r of x, which tap r = 2a + u of the kernel multiplies for row i of y, is row u of
// block i + a. So the sums contain the same products as before, and products with zeros, in another
// order; x' has out + ⌈kernel / 2⌉ − 1 blocks along a dimension. x' takes half of the bytes that x
// would take with 8 channels, and an element of y takes 256 products instead of 392. From 5
// channels on, blocks gain nothing: they would have 24, and an element of y 384 products instead of
// 392.
//
// Other convolutions get channels of zeros:
//
//   %x' = subsample(%x) {stride=1, channels=8}
//   %weight' = subsample(%weight) {stride=1, channels=8}
//   %y = conv(%x', %weight')
//
// In both cases the channels of a pixel take 16 bytes or a multiple, 8 channels in 16 bits or 4 in
// TF32, and no more than needed: bytes and products grow with them.
//
// x' is a tensor like any other: it is planned, and recomputed if a policy says so. Gradients come
// from the ops' rules, so the pass runs before autodiff, and after types are chosen.
#pragma once

#include <string_view>

#include "graph/pass.h"

namespace plimsoll::ops {

// Rewrites convolutions without groups, in 16 bits or TF32. Those of volumes only get zeros.
class PadChannels : public graph::Pass {
 public:
  std::string_view name() const override { return "pad_channels"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kTyped},
            .spoils = graph::FactsFrom(graph::Fact::kDifferentiated)};
  }
  graph::PassResult Run(graph::Program& program) override;
};

}  // namespace plimsoll::ops
