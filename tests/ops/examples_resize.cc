// Examples of what networks with skip connections consist of besides convolutions: pixels of
// channels that fill no pack of 16 bytes, and of whole packs.
#include "ops/resize/resize.h"
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

const ExampleRegistration kConcat({.op = "concat_channels",
                                   .label = "3 and 5 channels",
                                   .inputs = {{{2, 3, 4, 3}}, {{2, 3, 4, 5}}}});
const ExampleRegistration kConcatPacks({.op = "concat_channels",
                                        .label = "whole packs",
                                        .inputs = {{{2, 3, 8}}, {{2, 3, 16}}}});
const ExampleRegistration kConcatLarge({.op = "concat_channels",
                                        .label = "several chunks, one part of whole packs",
                                        .inputs = {{{2, 17, 19, 64}}, {{2, 17, 19, 20}}},
                                        .dtypes = {DType::kFloat32, DType::kBFloat16,
                                                   DType::kFloat16}});
const ExampleRegistration kConcatBackward({.op = "concat_channels_backward",
                                           .label = "3 and 5 channels",
                                           .inputs = {{{2, 3, 4, 8}}},
                                           .attributes = {{"first_channels", 3}}});
const ExampleRegistration kConcatBackwardAcc(
    {.op = "concat_channels_backward",
     .label = "3 and 5 channels, added",
     .inputs = {{{2, 3, 4, 8}}, {{2, 3, 4, 3}}, {{2, 3, 4, 5}}},
     .attributes = {{"first_channels", 3}}});
const ExampleRegistration kConcatBackwardPacks(
    {.op = "concat_channels_backward",
     .label = "whole packs, the second added, several chunks",
     .inputs = {{{31, 37, 40}}, {{}, Fill::kAbsent}, {{31, 37, 16}}},
     .attributes = {{"first_channels", 24}}});

graph::Attributes Nearest(std::initializer_list<int64_t> size) {
  return ResizeAttributes(size, {.mode = ResizeMode::kNearest});
}
graph::Attributes Linear(std::initializer_list<int64_t> size, bool align_corners = false) {
  return ResizeAttributes(size, {.align_corners = align_corners});
}

const ExampleRegistration kNearest({.op = "resize",
                                    .label = "nearest, larger and smaller, 3 channels",
                                    .inputs = {{{2, 4, 7, 3}}},
                                    .attributes = Nearest({9, 5})});
const ExampleRegistration kNearestTwice({.op = "resize",
                                         .label = "nearest, twice the volume, whole packs",
                                         .inputs = {{{1, 2, 3, 2, 8}}},
                                         .attributes = Nearest({4, 6, 4})});
const ExampleRegistration kLinear({.op = "resize",
                                   .label = "larger and smaller, 3 channels",
                                   .inputs = {{{2, 4, 7, 3}}},
                                   .attributes = Linear({9, 5})});
const ExampleRegistration kLinearTwice({.op = "resize",
                                        .label = "twice the image, whole packs",
                                        .inputs = {{{2, 3, 4, 16}}},
                                        .attributes = Linear({6, 8})});
const ExampleRegistration kLinearAligned({.op = "resize",
                                          .label = "aligned, 1 channel, to 1 row",
                                          .inputs = {{{2, 4, 5, 1}}},
                                          .attributes = Linear({1, 8}, true)});
const ExampleRegistration kLinearVolumes({.op = "resize",
                                          .label = "volumes, 5 channels, from 1 row",
                                          .inputs = {{{2, 3, 1, 4, 5}}},
                                          .attributes = Linear({5, 3, 2})});
const ExampleRegistration kLinearVolumesTwice({.op = "resize",
                                               .label = "aligned, twice the volume, whole packs",
                                               .inputs = {{{1, 2, 3, 2, 8}}},
                                               .attributes = Linear({4, 6, 4}, true)});
const ExampleRegistration kLinearLarge({.op = "resize",
                                        .label = "several chunks",
                                        .inputs = {{{2, 19, 17, 40}}},
                                        .attributes = Linear({38, 34}),
                                        .dtypes = {DType::kFloat32, DType::kBFloat16,
                                                   DType::kFloat16}});

const ExampleRegistration kNearestBackward({.op = "resize_backward",
                                            .label = "nearest, larger and smaller, 3 channels",
                                            .inputs = {{{2, 9, 5, 3}}},
                                            .attributes = Nearest({4, 7})});
const ExampleRegistration kNearestBackwardTwice({.op = "resize_backward",
                                                 .label = "nearest, twice the volume, whole packs",
                                                 .inputs = {{{1, 4, 6, 4, 8}}},
                                                 .attributes = Nearest({2, 3, 2})});
const ExampleRegistration kLinearBackward({.op = "resize_backward",
                                           .label = "larger and smaller, 3 channels",
                                           .inputs = {{{2, 9, 5, 3}}},
                                           .attributes = Linear({4, 7})});
const ExampleRegistration kLinearBackwardTwice({.op = "resize_backward",
                                                .label = "twice the image, several chunks",
                                                .inputs = {{{2, 38, 34, 40}}},
                                                .attributes = Linear({19, 17})});
const ExampleRegistration kLinearBackwardAligned({.op = "resize_backward",
                                                  .label = "aligned, 1 channel, to 1 row",
                                                  .inputs = {{{2, 1, 8, 1}}},
                                                  .attributes = Linear({4, 5}, true)});
const ExampleRegistration kLinearBackwardVolumes({.op = "resize_backward",
                                                  .label = "twice the volume, whole packs",
                                                  .inputs = {{{2, 4, 6, 8, 16}}},
                                                  .attributes = Linear({2, 3, 4})});

}  // namespace
}  // namespace plimsoll::ops
