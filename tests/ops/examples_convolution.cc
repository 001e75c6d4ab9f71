// Examples of convolutions: odd sizes, strides that leave taps out, and channels that fill no
// vector.
#include <string>
#include <utility>

#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;

constexpr ExampleInput Absent() { return {{}, Fill::kAbsent}; }

Attributes Window(int64_t stride, int64_t pad, int64_t dilation = 1, int64_t groups = 1) {
  return {{"stride_h", stride},     {"stride_w", stride},     {"pad_h", pad},    {"pad_w", pad},
          {"dilation_h", dilation}, {"dilation_w", dilation}, {"groups", groups}};
}

Attributes WithShape(Attributes attributes, std::initializer_list<int64_t> dims) {
  attributes.Set("rank", static_cast<int64_t>(dims.size()));
  int i = 0;
  for (const int64_t dim : dims) attributes.Set("d" + std::to_string(i++), dim);
  return attributes;
}

const ExampleRegistration kConv({.op = "conv",
                                 .label = "3×3 with bias",
                                 .inputs = {{{2, 6, 5, 3}}, {{4, 3, 3, 3}}, {{4}}},
                                 .attributes = Window(1, 1)});
const ExampleRegistration kConvPointwise({.op = "conv",
                                          .label = "pointwise",
                                          .inputs = {{{2, 4, 5, 8}}, {{16, 1, 1, 8}}, Absent()},
                                          .attributes = Window(1, 0)});
const ExampleRegistration kConvStride({.op = "conv",
                                       .label = "pointwise, stride 2",
                                       .inputs = {{{2, 7, 6, 8}}, {{8, 1, 1, 8}}, Absent()},
                                       .attributes = Window(2, 0)});
const ExampleRegistration kConvStem({.op = "conv",
                                     .label = "7×7, stride 2",
                                     .inputs = {{{1, 13, 12, 3}}, {{5, 7, 7, 3}}, {{5}}},
                                     .attributes = Window(2, 3)});
const ExampleRegistration kConvPatches({.op = "conv",
                                        .label = "patches",
                                        .inputs = {{{2, 8, 12, 3}}, {{16, 4, 4, 3}}, {{16}}},
                                        .attributes = Window(4, 0)});
// On a CPU the last block of rows needs more scratch memory than the whole one before it.
const ExampleRegistration kConvBlocks({.op = "conv",
                                       .label = "more rows than a block",
                                       .inputs = {{{8, 28, 28, 16}}, {{16, 3, 3, 16}}, Absent()},
                                       .attributes = Window(1, 1),
                                       .dtypes = {graph::DType::kBFloat16,
                                                  graph::DType::kFloat16}});
const ExampleRegistration kConvGroups({.op = "conv",
                                       .label = "2 groups, dilated, unequal strides",
                                       .inputs = {{{2, 9, 8, 6}}, {{4, 3, 2, 3}}, {{4}}},
                                       .attributes = {{"stride_h", 2},
                                                      {"stride_w", 1},
                                                      {"pad_h", 2},
                                                      {"pad_w", 0},
                                                      {"dilation_h", 2},
                                                      {"dilation_w", 3},
                                                      {"groups", 2}}});
const ExampleRegistration kConvDepthwise({.op = "conv",
                                          .label = "depthwise",
                                          .inputs = {{{2, 5, 6, 8}}, {{8, 3, 3, 1}}, Absent()},
                                          .attributes = Window(1, 1, 1, 8)});
const ExampleRegistration kConvVolume(
    {.op = "conv",
     .label = "volume",
     .inputs = {{{1, 4, 5, 3, 2}}, {{3, 3, 2, 2, 2}}, {{3}}},
     .attributes = {{"stride_d", 2}, {"pad_d", 1}, {"pad_h", 1}, {"dilation_w", 2}}});

const ExampleRegistration kConvDx({.op = "conv_dx",
                                   .label = "accumulating",
                                   .inputs = {{{2, 6, 5, 16}}, {{16, 3, 3, 8}}, {{2, 6, 5, 8}}},
                                   .attributes = WithShape(Window(1, 1), {2, 6, 5, 8})});
const ExampleRegistration kConvDxStride({.op = "conv_dx",
                                         .label = "stride 2",
                                         .inputs = {{{2, 4, 3, 5}}, {{5, 3, 3, 7}}, Absent()},
                                         .attributes = WithShape(Window(2, 1), {2, 7, 6, 7})});
const ExampleRegistration kConvDxGaps({.op = "conv_dx",
                                       .label = "stride beyond the kernel",
                                       .inputs = {{{2, 2, 3, 4}}, {{4, 1, 2, 3}}, {{2, 5, 9, 3}}},
                                       .attributes = WithShape(Window(3, 0), {2, 5, 9, 3})});

// Three classes for each pixel: too narrow for tensor cores.
const ExampleRegistration kConvFewOutputs({.op = "conv",
                                           .label = "pointwise, few outputs",
                                           .inputs = {
                                               {{2, 9, 13, 3, 32}}, {{3, 1, 1, 1, 32}}, {{3}}}});
const ExampleRegistration kConvDxFewOutputs(
    {.op = "conv_dx",
     .label = "pointwise, few outputs",
     .inputs = {{{2, 9, 13, 6}}, {{6, 1, 1, 64}}, {{2, 9, 13, 64}}},
     .attributes = WithShape({}, {2, 9, 13, 64})});
const ExampleRegistration kConvDwFewOutputs(
    {.op = "conv_dw",
     .label = "pointwise, few outputs",
     .inputs = {{{2, 9, 43, 32}}, {{2, 9, 43, 3}}, {{3, 1, 1, 32}}, {{3}}},
     .attributes = WithShape({}, {3, 1, 1, 32}),
     .compute_inputs = {2, 3}});
const ExampleRegistration kConvTransposeTiles(
    {.op = "conv_transpose",
     .label = "tiles, with bias",
     .inputs = {{{2, 4, 3, 16}}, {{16, 3, 2, 8}}, {{8}}},
     .attributes = WithShape({{"stride_h", 3}, {"stride_w", 2}}, {2, 12, 6, 8})});
const ExampleRegistration kConvTranspose({.op = "conv_transpose",
                                          .label = "stride 2, one pixel more",
                                          .inputs = {{{2, 4, 3, 6}}, {{6, 3, 3, 8}}, {{8}}},
                                          .attributes = WithShape(Window(2, 1), {2, 8, 6, 8})});
const ExampleRegistration kConvTransposeFewChannels(
    {.op = "conv_transpose",
     .label = "few channels",
     .inputs = {{{3, 5, 4, 16}}, {{16, 4, 4, 3}}, {{3}}},
     .attributes = WithShape(Window(2, 1), {3, 10, 8, 3})});
const ExampleRegistration kConvTransposeVolumeOfFewChannels(
    {.op = "conv_transpose",
     .label = "volume of few channels",
     .inputs = {{{2, 2, 3, 2, 8}}, {{8, 3, 2, 2, 5}}, Absent()},
     .attributes = WithShape({{"stride_h", 2}, {"stride_w", 2}}, {2, 4, 6, 4, 5})});
const ExampleRegistration kConvTransposeVolume(
    {.op = "conv_transpose",
     .label = "volume",
     .inputs = {{{2, 2, 3, 2, 16}}, {{16, 2, 2, 2, 8}}, Absent()},
     .attributes = WithShape({{"stride_d", 2}, {"stride_h", 2}, {"stride_w", 2}},
                             {2, 4, 6, 4, 8})});
const ExampleRegistration kConvTransposeGroups(
    {.op = "conv_transpose",
     .label = "2 groups, dilated",
     .inputs = {{{1, 5, 4, 6}}, {{6, 2, 3, 2}}, {{4}}},
     .attributes = WithShape({{"stride_h", 3}, {"stride_w", 1}, {"dilation_w", 2}, {"groups", 2}},
                             {1, 14, 8, 4})});

// cuDNN rounds dweight to the type of x.
constexpr double kRounded = 1;
const ExampleRegistration kConvDw(
    {.op = "conv_dw",
     .label = "accumulating",
     .inputs = {{{2, 7, 6, 8}}, {{2, 4, 3, 16}}, {{16, 3, 3, 8}}, {{16}}},
     .attributes = WithShape(Window(2, 1), {16, 3, 3, 8}),
     .compute_inputs = {2, 3},
     .cuda_tolerance = kRounded});
const ExampleRegistration kConvDwFresh(
    {.op = "conv_dw",
     .label = "written",
     .inputs = {{{3, 5, 5, 3}}, {{3, 5, 5, 4}}, Absent(), Absent()},
     .attributes = WithShape(Window(1, 1), {4, 3, 3, 3}),
     .cuda_tolerance = kRounded});

}  // namespace
}  // namespace plimsoll::ops
