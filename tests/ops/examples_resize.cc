// Examples of what networks with skip connections consist of besides convolutions: pixels of
// channels that fill no pack of 16 bytes, and of whole packs.
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

}  // namespace
}  // namespace plimsoll::ops
