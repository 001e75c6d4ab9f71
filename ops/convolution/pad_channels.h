// Zero channels for convolutions whose input has few, such as the stem of a model that sees images:
//
//   %y = conv(%x, %weight)
//
// becomes
//
//   %x' = subsample(%x) {stride=1, channels=8}
//   %weight' = subsample(%weight) {stride=1, channels=8}
//   %y = conv(%x', %weight')
//
// since tensor cores read pixels of whole 16 bytes: on an H200, the stem of a ResNet of 128 images
// with 3 channels in fp16 convolves for 1.7 ms a step, with 8 channels for 1.1 ms. x' is a tensor
// like others, planned, and made again where a policy says so. Gradients come with the ops, so the
// pass runs before autodiff, and after types are chosen.
#pragma once

#include <string_view>

#include "graph/pass.h"

namespace plimsoll::ops {

// Convolutions without groups, in 16 bits or TF32.
class PadChannels : public graph::Pass {
 public:
  std::string_view name() const override { return "pad_channels"; }
  graph::PassResult Run(graph::Program& program) override;
};

}  // namespace plimsoll::ops
