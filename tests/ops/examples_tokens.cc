// Examples of ops that move tokens and pixels: widths that fill packs of 16 bytes and others.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;

Attributes Part(const char* size, int64_t first, int64_t count) {
  return {{"first", first}, {size, count}};
}

const ExampleRegistration kSlice({.op = "slice_tokens",
                                  .label = "some",
                                  .inputs = {{{3, 7, 8}}},
                                  .attributes = Part("count", 2, 4)});
const ExampleRegistration kSliceFirst({.op = "slice_tokens",
                                       .label = "first",
                                       .inputs = {{{2, 5, 3}}},
                                       .attributes = Part("count", 0, 1)});
const ExampleRegistration kPlace({.op = "place_tokens",
                                  .label = "in the middle",
                                  .inputs = {{{3, 2, 8}}},
                                  .attributes = Part("tokens", 3, 9)});
const ExampleRegistration kPlaceAll({.op = "place_tokens",
                                     .label = "all",
                                     .inputs = {{{2, 4, 3}}},
                                     .attributes = Part("tokens", 0, 4)});

const ExampleRegistration kPrepend({.op = "prepend_token",
                                    .label = "",
                                    .inputs = {{{3, 5, 16}}, {{16}}, {{6, 16}}}});
const ExampleRegistration kPrependNarrow({.op = "prepend_token",
                                          .label = "narrow",
                                          .inputs = {{{2, 4, 3}}, {{3}}, {{5, 3}}}});

const ExampleRegistration kPatches({.op = "patches",
                                    .label = "three channels",
                                    .inputs = {{{2, 8, 12, 3}}},
                                    .attributes = {{"size", int64_t{4}}}});
const ExampleRegistration kPatchesOdd({.op = "patches",
                                       .label = "of odd size",
                                       .inputs = {{{2, 6, 9, 1}}},
                                       .attributes = {{"size", int64_t{3}}}});
const ExampleRegistration kPatchesBackward(
    {.op = "patches_backward",
     .label = "",
     .inputs = {{{2, 6, 48}}},
     .attributes = {{"size", int64_t{4}}, {"h", int64_t{8}}, {"w", int64_t{12}}}});

}  // namespace
}  // namespace plimsoll::ops
