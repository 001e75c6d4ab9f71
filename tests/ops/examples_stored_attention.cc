// Examples of the ops between which attention with stored scores is divided.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;

Attributes Heads(int64_t heads, int64_t kv_heads) {
  return {{"heads", heads}, {"kv_heads", kv_heads}};
}
Attributes Softmax(bool causal, double scale) { return {{"causal", causal}, {"scale", scale}}; }

// Heads of 5 values, of which a GPU moves one at a time, and of 8 and 16, of which it moves packs.
const ExampleRegistration kSplitHeads(
    {.op = "split_heads", .label = "", .inputs = {{{2, 7, 45}}}, .attributes = Heads(3, 3)});
const ExampleRegistration kSplitHeadsGrouped({.op = "split_heads",
                                              .label = "2 of 4 kv heads",
                                              .inputs = {{{2, 6, 64}}},
                                              .attributes = Heads(4, 2)});
const ExampleRegistration kSplitHeadsBackward(
    {.op = "split_heads_backward",
     .label = "",
     .inputs = {{{2, 3, 7, 5}}, {{2, 3, 7, 5}}, {{2, 3, 7, 5}}},
     .attributes = Heads(3, 3)});
const ExampleRegistration kSplitHeadsBackwardGrouped(
    {.op = "split_heads_backward",
     .label = "1 of 4 kv heads",
     .inputs = {{{3, 1, 24, 16}}, {{3, 1, 6, 16}}, {{3, 1, 6, 16}}},
     .attributes = Heads(4, 1)});
const ExampleRegistration kMergeHeads(
    {.op = "merge_heads", .label = "", .inputs = {{{2, 3, 7, 5}}}, .attributes = Heads(3, 3)});
const ExampleRegistration kMergeHeadsGrouped({.op = "merge_heads",
                                              .label = "2 of 6 kv heads",
                                              .inputs = {{{2, 2, 21, 8}}},
                                              .attributes = Heads(6, 2)});
const ExampleRegistration kMergeHeadsBackward({.op = "merge_heads_backward",
                                               .label = "",
                                               .inputs = {{{2, 7, 15}}},
                                               .attributes = Heads(3, 3)});
const ExampleRegistration kMergeHeadsBackwardGrouped({.op = "merge_heads_backward",
                                                      .label = "2 of 6 kv heads",
                                                      .inputs = {{{2, 7, 48}}},
                                                      .attributes = Heads(6, 2)});

// Rows that are no multiple of a vector; rows of whole packs, which a GPU keeps in registers; and
// rows that it reads more than once.
const ExampleRegistration kSoftmaxCausal({.op = "masked_softmax",
                                          .label = "causal, 2 query heads a kv head",
                                          .inputs = {{{2, 2, 22, 11}}},
                                          .attributes = Softmax(true, 0.25)});
const ExampleRegistration kSoftmaxFull({.op = "masked_softmax",
                                        .label = "full",
                                        .inputs = {{{1, 3, 64, 64}}},
                                        .attributes = Softmax(false, 1)});
const ExampleRegistration kSoftmaxPadded({.op = "masked_softmax",
                                          .label = "full, padded",
                                          .inputs = {{{4, 2, 40, 40}}, {{4}, Fill::kTokens, 41}},
                                          .attributes = Softmax(false, 0.5)});
const ExampleRegistration kSoftmaxCausalPadded({.op = "masked_softmax",
                                                .label = "causal, padded",
                                                .inputs = {{{3, 1, 18, 9}},
                                                           {{3}, Fill::kTokens, 10}},
                                                .attributes = Softmax(true, 0.125)});
// Without f64: finite differences of so many elements would take long.
const std::vector<graph::DType> kNarrowTypes = {graph::DType::kFloat32, graph::DType::kBFloat16,
                                                graph::DType::kFloat16};
const ExampleRegistration kSoftmaxLong({.op = "masked_softmax",
                                        .label = "causal, rows for a block of threads",
                                        .inputs = {{{1, 1, 1032, 1032}}},
                                        .attributes = Softmax(true, 2),
                                        .dtypes = kNarrowTypes});
const ExampleRegistration kSoftmaxLongOdd({.op = "masked_softmax",
                                           .label = "long rows of no whole packs",
                                           .inputs = {{{1, 1, 1027, 1027}}},
                                           .attributes = Softmax(false, 0.5),
                                           .dtypes = kNarrowTypes});
const ExampleRegistration kSoftmaxBackwardCausal({.op = "masked_softmax_backward",
                                                  .label = "causal",
                                                  .inputs = {{{2, 2, 22, 11}, Fill::kPositive},
                                                             {{2, 2, 22, 11}}},
                                                  .attributes = Softmax(true, 0.25)});
const ExampleRegistration kSoftmaxBackwardFull({.op = "masked_softmax_backward",
                                                .label = "full",
                                                .inputs = {{{2, 1, 64, 64}, Fill::kPositive},
                                                           {{2, 1, 64, 64}}},
                                                .attributes = Softmax(false, 0.5)});
const ExampleRegistration kSoftmaxBackwardLong({.op = "masked_softmax_backward",
                                                .label = "causal, rows for a block of threads",
                                                .inputs = {{{1, 1, 1032, 1032}, Fill::kSmall},
                                                           {{1, 1, 1032, 1032}}},
                                                .attributes = Softmax(true, 0.5),
                                                .dtypes = kNarrowTypes});
const ExampleRegistration kSoftmaxBackwardLongOdd({.op = "masked_softmax_backward",
                                                   .label = "long rows of no whole packs",
                                                   .inputs = {{{1, 1, 1027, 1027}, Fill::kSmall},
                                                              {{1, 1, 1027, 1027}}},
                                                   .attributes = Softmax(false, 0.5),
                                                   .dtypes = kNarrowTypes});

}  // namespace
}  // namespace plimsoll::ops
