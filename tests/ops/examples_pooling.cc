// Examples of poolings: pixels of one channel, of channels that fill no pack of 16 bytes, and of
// whole packs.
#include "ops/pooling/pool_window.h"
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleRegistration kSubsample({.op = "subsample",
                                      .label = "",
                                      .inputs = {{{2, 5, 6, 3}}},
                                      .attributes = {{"stride", 2}, {"channels", 7}}});
const ExampleRegistration kSubsampleByThree({.op = "subsample",
                                             .label = "many channels, none new",
                                             .inputs = {{{3, 7, 9, 200}}},
                                             .attributes = {{"stride", 3}, {"channels", 200}}});
const ExampleRegistration kSubsampleCentered(
    {.op = "subsample",
     .label = "zeros on either side",
     .inputs = {{{2, 5, 6, 3}}},
     .attributes = {{"stride", 2}, {"channels", 7}, {"first_channel", 2}}});
const ExampleRegistration kSubsampleCenteredPacks(
    {.op = "subsample",
     .label = "zeros on either side, whole packs",
     .inputs = {{{3, 7, 9, 16}}},
     .attributes = {{"stride", 2}, {"channels", 32}, {"first_channel", 8}}});
const ExampleRegistration kSubsampleBehindZeros(
    {.op = "subsample",
     .label = "zeros in front, no whole packs of x",
     .inputs = {{{2, 4, 4, 21}}},
     .attributes = {{"stride", 1}, {"channels", 24}, {"first_channel", 3}}});
const ExampleRegistration kSubsampleBackward(
    {.op = "subsample_backward",
     .label = "",
     .inputs = {{{2, 3, 3, 7}}},
     .attributes = {{"stride", 2}, {"rank", 4}, {"d0", 2}, {"d1", 5}, {"d2", 6}, {"d3", 3}}});
const ExampleRegistration kSubsampleBackwardCentered({.op = "subsample_backward",
                                                      .label = "zeros on either side",
                                                      .inputs = {{{2, 3, 3, 7}}},
                                                      .attributes = {{"stride", 2},
                                                                     {"first_channel", 2},
                                                                     {"rank", 4},
                                                                     {"d0", 2},
                                                                     {"d1", 5},
                                                                     {"d2", 6},
                                                                     {"d3", 3}}});

using graph::Attributes;
using graph::DType;

// Windows that overlap and lie over the padding.
constexpr Pool2d kOverlapping = Pool2d::Square(3, 2, 1);
// Windows that leave elements out, of different sizes in the two dimensions.
constexpr Pool2d kApart = {
    .kernel_h = 2, .kernel_w = 3, .stride_h = 3, .stride_w = 4, .pad_h = 0, .pad_w = 1};

Attributes Average(const Pool2d& window, bool count_include_pad) {
  Attributes attributes = ToAttributes(window);
  attributes.Set("count_include_pad", count_include_pad);
  return attributes;
}

// The attributes of a backward op for images of that size.
Attributes Of(int64_t h, int64_t w, const Attributes& attributes) {
  return WithImageSize(attributes, {1, h, w, 1});
}

// For large examples, without finite differences.
std::vector<DType> LowAndSingle() { return {DType::kFloat32, DType::kBFloat16, DType::kFloat16}; }

const ExampleRegistration kMax({.op = "max_pool2d",
                                .label = "overlapping, 6 channels",
                                .inputs = {{{2, 7, 9, 6}}},
                                .attributes = ToAttributes(kOverlapping)});
const ExampleRegistration kMaxPacks({.op = "max_pool2d",
                                     .label = "whole packs",
                                     .inputs = {{{2, 6, 5, 16}}},
                                     .attributes = ToAttributes(Pool2d::Square(2, 2))});
const ExampleRegistration kMaxApart({.op = "max_pool2d",
                                     .label = "apart, 1 channel",
                                     .inputs = {{{3, 8, 10, 1}}},
                                     .attributes = ToAttributes(kApart)});
const ExampleRegistration kMaxLarge({.op = "max_pool2d",
                                     .label = "several chunks",
                                     .inputs = {{{3, 33, 31, 40}}},
                                     .attributes = ToAttributes(kOverlapping),
                                     .dtypes = LowAndSingle()});
const ExampleRegistration kMaxBackward({.op = "max_pool2d_backward",
                                        .label = "overlapping, 6 channels",
                                        .inputs = {{{2, 4, 5, 6}},
                                                   {{2, 4, 5, 6}, Fill::kTokens, 9, DType::kUInt8}},
                                        .attributes = Of(7, 9, ToAttributes(kOverlapping))});
const ExampleRegistration kMaxBackwardPacks(
    {.op = "max_pool2d_backward",
     .label = "whole packs, several chunks",
     .inputs = {{{3, 17, 16, 40}}, {{3, 17, 16, 40}, Fill::kTokens, 9, DType::kUInt8}},
     .attributes = Of(33, 31, ToAttributes(kOverlapping))});
const ExampleRegistration kMaxBackwardApart(
    {.op = "max_pool2d_backward",
     .label = "apart, 1 channel",
     .inputs = {{{3, 3, 3, 1}}, {{3, 3, 3, 1}, Fill::kTokens, 6, DType::kUInt8}},
     .attributes = Of(8, 10, ToAttributes(kApart))});

const ExampleRegistration kAvg({.op = "avg_pool2d",
                                .label = "with padding, 6 channels",
                                .inputs = {{{2, 7, 9, 6}}},
                                .attributes = Average(kOverlapping, true)});
const ExampleRegistration kAvgPacks({.op = "avg_pool2d",
                                     .label = "without padding, whole packs",
                                     .inputs = {{{2, 6, 5, 16}}},
                                     .attributes = Average(kOverlapping, false)});
const ExampleRegistration kAvgApart({.op = "avg_pool2d",
                                     .label = "apart, 1 channel",
                                     .inputs = {{{3, 8, 10, 1}}},
                                     .attributes = Average(kApart, false)});
const ExampleRegistration kAvgLarge({.op = "avg_pool2d",
                                     .label = "several chunks",
                                     .inputs = {{{3, 33, 31, 40}}},
                                     .attributes = Average(kOverlapping, true),
                                     .dtypes = LowAndSingle()});
const ExampleRegistration kAvgBackward({.op = "avg_pool2d_backward",
                                        .label = "with padding, 6 channels",
                                        .inputs = {{{2, 4, 5, 6}}},
                                        .attributes = Of(7, 9, Average(kOverlapping, true))});
const ExampleRegistration kAvgBackwardPacks(
    {.op = "avg_pool2d_backward",
     .label = "without padding, whole packs, several chunks",
     .inputs = {{{3, 17, 16, 40}}},
     .attributes = Of(33, 31, Average(kOverlapping, false))});
const ExampleRegistration kAvgBackwardApart({.op = "avg_pool2d_backward",
                                             .label = "apart, 1 channel",
                                             .inputs = {{{3, 3, 3, 1}}},
                                             .attributes = Of(8, 10, Average(kApart, false))});

const ExampleRegistration kGlobalAvg({.op = "global_avg_pool",
                                      .label = "6 channels",
                                      .inputs = {{{2, 5, 7, 6}}}});
const ExampleRegistration kGlobalAvgPacks({.op = "global_avg_pool",
                                           .label = "whole packs, 1 pixel",
                                           .inputs = {{{3, 1, 1, 16}}}});
const ExampleRegistration kGlobalAvgTiles({.op = "global_avg_pool",
                                           .label = "several tiles of channels",
                                           .inputs = {{{40, 7, 7, 520}}},
                                           .dtypes = LowAndSingle()});
const ExampleRegistration kGlobalAvgParts({.op = "global_avg_pool",
                                           .label = "several parts of an image",
                                           .inputs = {{{2, 41, 43, 24}}},
                                           .dtypes = LowAndSingle()});
const ExampleRegistration kGlobalAvgPartsOdd({.op = "global_avg_pool",
                                              .label = "several parts, 3 channels",
                                              .inputs = {{{2, 41, 43, 3}}},
                                              .dtypes = LowAndSingle()});
const ExampleRegistration kGlobalAvgBackward({.op = "global_avg_pool_backward",
                                              .label = "6 channels",
                                              .inputs = {{{2, 6}}},
                                              .attributes = {{"h", int64_t{5}},
                                                             {"w", int64_t{7}}}});
const ExampleRegistration kGlobalAvgBackwardPacks({.op = "global_avg_pool_backward",
                                                   .label = "whole packs, several chunks",
                                                   .inputs = {{{9, 264}}},
                                                   .attributes = {{"h", int64_t{7}},
                                                                  {"w", int64_t{9}}}});

}  // namespace
}  // namespace plimsoll::ops
