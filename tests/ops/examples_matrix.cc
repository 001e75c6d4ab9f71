// Examples of matrix products, attention and the fused loss.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;

constexpr ExampleInput Absent() { return {{}, Fill::kAbsent}; }
ExampleInput Rng() { return {{2}, Fill::kCounter}; }

const ExampleRegistration kLinear({.op = "linear",
                                   .label = "with bias",
                                   .inputs = {{{2, 3, 7}}, {{5, 7}}, {{5}}}});
const ExampleRegistration kLinearPlain({.op = "linear",
                                        .label = "without bias",
                                        .inputs = {{{12, 20}}, {{9, 20}}, Absent()}});
const ExampleRegistration kLinearWide({.op = "linear",
                                       .label = "several tiles",
                                       .inputs = {{{150, 33}}, {{70, 33}, Fill::kSmall}, {{70}}}});
const ExampleRegistration kLinearFewRows({.op = "linear",
                                          .label = "a few rows, many columns",
                                          .inputs = {
                                              {{3, 530}}, {{300, 530}, Fill::kSmall}, {{300}}}});
const ExampleRegistration kLinearDx({.op = "linear_dx",
                                     .label = "accumulating",
                                     .inputs = {{{2, 30, 40}}, {{40, 50}}, {{2, 30, 50}}}});
const ExampleRegistration kLinearDxFresh({.op = "linear_dx",
                                          .label = "written",
                                          .inputs = {{{60, 40}}, {{40, 50}}, Absent()}});
const ExampleRegistration kLinearDw(
    {.op = "linear_dw",
     .label = "accumulating",
     .inputs = {{{2, 70, 50}}, {{2, 70, 300}}, {{300, 50}}, {{300}}},
     .attributes = {{"bias", true}},
     .compute_inputs = {2, 3}});
const ExampleRegistration kLinearDwLow(
    {.op = "linear_dw",
     .label = "added to in bf16",
     .inputs = {{{2, 70, 48}}, {{2, 70, 300}}, {{300, 48}}, Absent(), {{2}, Fill::kCounter}},
     .attributes = {{"bias", false}, {"key", int64_t{5}}, {"low_gradient", true}},
     .dtypes = {graph::DType::kBFloat16}});
const ExampleRegistration kLinearDwLowSlices(
    {.op = "linear_dw",
     .label = "added to in bf16, slice by slice",
     .inputs = {{{9, 4096}},
                {{9, 2313}},
                {{2313, 4096}},
                {{2313}, Fill::kNormal, 0, graph::DType::kFloat32},
                {{2}, Fill::kCounter}},
     .attributes = {{"bias", true}, {"key", int64_t{5}}, {"low_gradient", true}},
     .dtypes = {graph::DType::kBFloat16}});
// More than a slice, for the kernel of our own on a Hopper GPU.
const ExampleRegistration kLinearDwLowLarge(
    {.op = "linear_dw",
     .label = "added to in bf16, large",
     .inputs = {{{72, 4104}}, {{72, 2048}}, {{2048, 4104}}, Absent(), {{2}, Fill::kCounter}},
     .attributes = {{"bias", false}, {"key", int64_t{5}}, {"low_gradient", true}},
     .dtypes = {graph::DType::kBFloat16}});
const ExampleRegistration kLinearDwFresh({.op = "linear_dw",
                                          .label = "written",
                                          .inputs = {{{67, 50}}, {{67, 40}}, Absent(), Absent()},
                                          .attributes = {{"bias", true}}});

// The product is rounded before gelu's gradient, or the GPU uses a fast tanh.
constexpr double kBeforeGelu = 4;
const ExampleRegistration kLinearDxGelu({.op = "linear_dx_gelu",
                                         .label = "",
                                         .inputs = {{{2, 30, 40}}, {{40, 56}}, {{2, 30, 56}}},
                                         .low_precision_tolerance = kBeforeGelu});
const ExampleRegistration kLinearDxGeluOdd({.op = "linear_dx_gelu",
                                            .label = "odd",
                                            .inputs = {{{13, 9}}, {{9, 27}}, {{13, 27}}},
                                            .low_precision_tolerance = kBeforeGelu});

Attributes Ranges(const char* columns) { return {{"columns", columns}, {"scale", 0.5}}; }

const ExampleRegistration kAddLowRank({.op = "add_low_rank",
                                       .label = "two ranges of columns",
                                       .inputs = {{{2, 5, 30}}, {{2, 5, 6}}, {{16, 3}}},
                                       .attributes = Ranges("14+9 3+7")});
const ExampleRegistration kAddLowRankWhole({.op = "add_low_rank",
                                            .label = "all columns",
                                            .inputs = {{{70, 40}}, {{70, 8}}, {{40, 8}}},
                                            .attributes = Ranges("0+40")});
const ExampleRegistration kAddLowRankDu({.op = "add_low_rank_du",
                                         .label = "two ranges of columns",
                                         .inputs = {{{2, 5, 30}}, {{16, 3}}},
                                         .attributes = Ranges("14+9 3+7")});
const ExampleRegistration kAddLowRankDuWhole({.op = "add_low_rank_du",
                                              .label = "all columns",
                                              .inputs = {{{70, 40}}, {{40, 8}}},
                                              .attributes = Ranges("0+40")});
const ExampleRegistration kAddLowRankDb({.op = "add_low_rank_db",
                                         .label = "two ranges of columns, accumulating",
                                         .inputs = {{{2, 35, 6}}, {{2, 35, 30}}, {{16, 3}}},
                                         .attributes = Ranges("14+9 3+7"),
                                         .compute_inputs = {2}});
const ExampleRegistration kAddLowRankDbFresh({.op = "add_low_rank_db",
                                              .label = "all columns, written",
                                              .inputs = {{{70, 8}}, {{70, 40}}, Absent()},
                                              .attributes = Ranges("0+40")});

Attributes Transposed(bool a, bool b) { return {{"trans_a", a}, {"trans_b", b}}; }

const ExampleRegistration kMatmul({.op = "matmul",
                                   .label = "a b",
                                   .inputs = {{{2, 3, 4, 5}}, {{2, 3, 5, 6}}},
                                   .attributes = Transposed(false, false)});
const ExampleRegistration kMatmulTransA({.op = "matmul",
                                         .label = "aT b",
                                         .inputs = {{{2, 5, 4}}, {{2, 5, 6}}},
                                         .attributes = Transposed(true, false)});
const ExampleRegistration kMatmulTransB({.op = "matmul",
                                         .label = "a bT",
                                         .inputs = {{{4, 5}}, {{6, 5}}},
                                         .attributes = Transposed(false, true)});
const ExampleRegistration kMatmulTransBoth({.op = "matmul",
                                            .label = "aT bT, many small",
                                            .inputs = {{{9, 5, 4}}, {{9, 6, 5}}},
                                            .attributes = Transposed(true, true)});

const ExampleRegistration kRotary(
    {.op = "rotary",
     .label = "1 of 2 kv heads",
     .inputs = {{{2, 5, 24}}},
     .attributes = {
         {"heads", int64_t{2}}, {"kv_heads", int64_t{1}}, {"theta", 10000.0}, {"inverse", false}}});
const ExampleRegistration kRotaryScaled({.op = "rotary",
                                         .label = "inverse, llama3 scaling",
                                         .inputs = {{{1, 9, 48}}},
                                         .attributes = {{"heads", int64_t{1}},
                                                        {"kv_heads", int64_t{1}},
                                                        {"theta", 100.0},
                                                        {"inverse", true},
                                                        {"factor", 4.0},
                                                        {"low_freq_factor", 1.0},
                                                        {"high_freq_factor", 4.0},
                                                        {"original_sequence", int64_t{64}}}});

const ExampleRegistration kRotaryLinear({.op = "rotary",
                                         .label = "linear scaling",
                                         .inputs = {{{2, 7, 24}}},
                                         .attributes = {{"heads", int64_t{2}},
                                                        {"kv_heads", int64_t{1}},
                                                        {"theta", 100.0},
                                                        {"inverse", false},
                                                        {"factor", 3.0}}});

const ExampleRegistration kRotaryFrom(
    {.op = "rotary",
     .label = "positions from 3",
     .inputs = {{{2, 5, 24}}, {{1}, Fill::kCounter}},
     .attributes = {
         {"heads", int64_t{2}}, {"kv_heads", int64_t{1}}, {"theta", 10000.0}, {"inverse", false}}});

Attributes AttentionOf(int64_t heads, int64_t kv_heads, bool causal, double dropout = 0) {
  return {{"heads", heads},
          {"kv_heads", kv_heads},
          {"causal", causal},
          {"dropout", dropout},
          {"key", int64_t{11}}};
}

const ExampleRegistration kAttention({.op = "attention",
                                      .label = "causal",
                                      .inputs = {{{2, 7, 24}}, Absent()},
                                      .attributes = AttentionOf(2, 2, true)});
const ExampleRegistration kAttentionGrouped({.op = "attention",
                                             .label = "causal, 2 of 4 kv heads, several tiles",
                                             .inputs = {{{1, 150, 24}}, Absent()},
                                             .attributes = AttentionOf(4, 2, true)});
const ExampleRegistration kAttentionFull({.op = "attention",
                                          .label = "full",
                                          .inputs = {{{1, 70, 36}}, Absent()},
                                          .attributes = AttentionOf(2, 1, false)});
const ExampleRegistration kAttentionDropout({.op = "attention",
                                             .label = "dropout",
                                             .inputs = {{{2, 9, 24}}, Rng()},
                                             .attributes = AttentionOf(2, 2, true, 0.25)});
const ExampleRegistration kAttentionPadded(
    {.op = "attention",
     .label = "full, padded",
     .inputs = {{{4, 70, 36}}, Absent(), {{4}, Fill::kTokens, 71}},
     .attributes = AttentionOf(2, 1, false)});
const ExampleRegistration kAttentionPaddedDropout(
    {.op = "attention",
     .label = "causal, padded, dropout",
     .inputs = {{{3, 9, 24}}, Rng(), {{3}, Fill::kTokens, 10}},
     .attributes = AttentionOf(2, 2, true, 0.25)});
const ExampleRegistration kAttentionBackward({.op = "attention_backward",
                                              .label = "1 of 2 kv heads",
                                              .inputs = {{{2, 70, 32}},
                                                         {{2, 70, 16}},
                                                         {{2, 2, 70}, Fill::kPositive},
                                                         {{2, 70, 16}},
                                                         Absent()},
                                              .attributes = AttentionOf(2, 1, true),
                                              .compute_inputs = {2}});
const ExampleRegistration kAttentionBackwardPadded({.op = "attention_backward",
                                                    .label = "padded",
                                                    .inputs = {{{3, 140, 48}},
                                                               {{3, 140, 16}},
                                                               {{3, 2, 140}, Fill::kPositive},
                                                               {{3, 140, 16}},
                                                               Absent(),
                                                               {{3}, Fill::kTokens, 141}},
                                                    .attributes = AttentionOf(2, 2, false),
                                                    .compute_inputs = {2}});
const ExampleRegistration kAttentionBackwardDropout(
    {.op = "attention_backward",
     .label = "dropout",
     .inputs = {{{1, 20, 24}}, {{1, 20, 8}}, {{1, 1, 20}, Fill::kPositive}, {{1, 20, 8}}, Rng()},
     .attributes = AttentionOf(1, 1, false, 0.5),
     .compute_inputs = {2}});

// x, weight, targets and scale, with a vocabulary of 37.
ExampleInput Weight() { return {{37, 11}, Fill::kNormal}; }
ExampleInput Targets() { return {{2, 9}, Fill::kTargets, 37}; }
ExampleInput Scale() { return {{}, Fill::kPositive}; }
// The logits' gradients are rounded before they enter the products.
constexpr double kDlogits = 4;
// A GPU rounds the logits to 16 bits, except where it stores exponentials
// (ops/cuda/loss_exponentials.h), with an error relative to the largest.
constexpr double kLogits = 1;
// Of fp16 with exponentials: two factors are rounded to bf16, whose error is eight times as large.
constexpr double kExponentials = 16;

const ExampleRegistration kLoss({.op = "linear_cross_entropy",
                                 .label = "",
                                 .inputs = {{{2, 9, 11}}, Weight(), Targets(), Scale()},
                                 .float32_inputs = {3},
                                 .cuda_tolerance = kLogits});
const ExampleRegistration kLossBias({.op = "linear_cross_entropy",
                                     .label = "bias",
                                     .inputs = {{{2, 9, 11}}, Weight(), Targets(), Scale(), {{37}}},
                                     .float32_inputs = {3},
                                     .cuda_tolerance = kLogits});
const ExampleRegistration kLossBackward({.op = "linear_cross_entropy_backward",
                                         .label = "accumulating",
                                         .inputs = {{{2, 9, 11}, Fill::kSmall},
                                                    Weight(),
                                                    Targets(),
                                                    Scale(),
                                                    {{18}, Fill::kPositive},
                                                    {{}, Fill::kPositive},
                                                    {{37, 11}}},
                                         .float32_inputs = {3},
                                         .compute_inputs = {4, 5, 6},
                                         .low_precision_tolerance = kDlogits,
                                         .cuda_tolerance = kLogits});
const ExampleRegistration kLossBackwardBias({.op = "linear_cross_entropy_backward",
                                             .label = "bias, accumulating",
                                             .inputs = {{{2, 9, 11}, Fill::kSmall},
                                                        Weight(),
                                                        Targets(),
                                                        Scale(),
                                                        {{18}, Fill::kPositive},
                                                        {{}, Fill::kPositive},
                                                        {{37, 11}},
                                                        {{37}},
                                                        {{37}}},
                                             .float32_inputs = {3},
                                             .compute_inputs = {4, 5, 6, 8},
                                             .low_precision_tolerance = kDlogits,
                                             .cuda_tolerance = kLogits});
const ExampleRegistration kLossTrainBias({.op = "linear_cross_entropy_train",
                                          .label = "bias, many rows",
                                          .inputs = {{{1100, 8}},
                                                     {{530, 8}, Fill::kSmall},
                                                     {{1100}, Fill::kTargets, 530},
                                                     Scale(),
                                                     {{}, Fill::kPositive},
                                                     Absent(),
                                                     {{530}},
                                                     Absent()},
                                          .float32_inputs = {3},
                                          .compute_inputs = {4},
                                          .low_precision_tolerance = 4 * kDlogits,
                                          .cuda_tolerance = kLogits});
const ExampleRegistration kLossTrain(
    {.op = "linear_cross_entropy_train",
     .label = "accumulating",
     .inputs = {{{2, 9, 11}}, Weight(), Targets(), Scale(), {{}, Fill::kPositive}, {{37, 11}}},
     .float32_inputs = {3},
     .compute_inputs = {4, 5},
     .low_precision_tolerance = kDlogits,
     .cuda_tolerance = kLogits});
graph::Attributes LowLoss() { return {{"key", int64_t{5}}, {"low_gradient", true}}; }
const ExampleRegistration kLossTrainLow(
    {.op = "linear_cross_entropy_train",
     .label = "added to in bf16, many rows",
     .inputs = {{{1100, 24}},
                {{530, 24}, Fill::kSmall},
                {{1100}, Fill::kTargets, 530},
                Scale(),
                {{}, Fill::kPositive, 0, graph::DType::kFloat32},
                {{530, 24}},
                Absent(),
                Absent(),
                {{2}, Fill::kCounter}},
     .attributes = LowLoss(),
     .float32_inputs = {3},
     .low_precision_tolerance = 4 * kDlogits,
     .cuda_tolerance = kLogits,
     .dtypes = {graph::DType::kBFloat16}});
const ExampleRegistration kLossBackwardLow(
    {.op = "linear_cross_entropy_backward",
     .label = "added to in bf16",
     .inputs = {{{2, 9, 11}},
                Weight(),
                Targets(),
                Scale(),
                {{18}, Fill::kPositive, 0, graph::DType::kFloat32},
                {{}, Fill::kPositive, 0, graph::DType::kFloat32},
                {{37, 11}},
                Absent(),
                Absent(),
                {{2}, Fill::kCounter}},
     .attributes = LowLoss(),
     .float32_inputs = {3},
     .low_precision_tolerance = kDlogits,
     .cuda_tolerance = kLogits,
     .dtypes = {graph::DType::kBFloat16}});
const ExampleRegistration kLossTrainFresh({.op = "linear_cross_entropy_train",
                                           .label = "written, many rows",
                                           .inputs = {{{300, 20}},
                                                      {{500, 20}, Fill::kSmall},
                                                      {{300}, Fill::kTargets, 500},
                                                      Scale(),
                                                      {{}, Fill::kPositive},
                                                      Absent()},
                                           .float32_inputs = {3},
                                           .compute_inputs = {4},
                                           .low_precision_tolerance = kDlogits,
                                           .cuda_tolerance = kLogits});
const ExampleRegistration kLossPacks(
    {.op = "linear_cross_entropy",
     .label = "rows of packs",
     .inputs = {{{140, 24}}, {{500, 24}}, {{140}, Fill::kTargets, 500}, Scale()},
     .float32_inputs = {3},
     .cuda_tolerance = kLogits,
     .dtypes = {graph::DType::kFloat32, graph::DType::kBFloat16}});
const ExampleRegistration kLossTrainPacks({.op = "linear_cross_entropy_train",
                                           .label = "rows of packs",
                                           .inputs = {{{140, 24}},
                                                      {{500, 24}},
                                                      {{140}, Fill::kTargets, 500},
                                                      Scale(),
                                                      {{}, Fill::kPositive},
                                                      {{500, 24}}},
                                           .float32_inputs = {3},
                                           .compute_inputs = {4, 5},
                                           .low_precision_tolerance = kDlogits,
                                           .cuda_tolerance = kLogits,
                                           .dtypes = {graph::DType::kFloat32,
                                                      graph::DType::kBFloat16}});
// Its logits are small, since GPUs other than Hopper round them.
const ExampleRegistration kLossTrainPacksHalf({.op = "linear_cross_entropy_train",
                                               .label = "rows of packs in fp16",
                                               .inputs = {{{140, 24}},
                                                          {{500, 24}, Fill::kSmall},
                                                          {{140}, Fill::kTargets, 500},
                                                          Scale(),
                                                          {{}, Fill::kPositive},
                                                          {{500, 24}}},
                                               .float32_inputs = {3},
                                               .compute_inputs = {4, 5},
                                               .low_precision_tolerance = kDlogits,
                                               .cuda_tolerance = kExponentials,
                                               .dtypes = {graph::DType::kFloat32,
                                                          graph::DType::kFloat16}});

// A vocabulary that is split among the ranks of an axis with only one rank.
graph::Attributes Split() { return {{"axis", std::string("tensor")}}; }

const ExampleRegistration kLossSplit({.op = "linear_cross_entropy",
                                      .label = "split",
                                      .inputs = {{{2, 9, 11}}, Weight(), Targets(), Scale()},
                                      .attributes = Split(),
                                      .float32_inputs = {3},
                                      .cuda_tolerance = kLogits});
const ExampleRegistration kLossBackwardSplit({.op = "linear_cross_entropy_backward",
                                              .label = "split",
                                              .inputs = {{{2, 9, 11}, Fill::kSmall},
                                                         Weight(),
                                                         Targets(),
                                                         Scale(),
                                                         {{18}, Fill::kPositive},
                                                         {{}, Fill::kPositive},
                                                         {{37, 11}}},
                                              .attributes = Split(),
                                              .float32_inputs = {3},
                                              .compute_inputs = {4, 5, 6},
                                              .low_precision_tolerance = kDlogits,
                                              .cuda_tolerance = kLogits});
const ExampleRegistration kLossTrainSplit(
    {.op = "linear_cross_entropy_train",
     .label = "split",
     .inputs = {{{2, 9, 11}}, Weight(), Targets(), Scale(), {{}, Fill::kPositive}, {{37, 11}}},
     .attributes = Split(),
     .float32_inputs = {3},
     .compute_inputs = {4, 5},
     .low_precision_tolerance = kDlogits,
     .cuda_tolerance = kLogits});
const ExampleRegistration kLossTrainSplitPacks({.op = "linear_cross_entropy_train",
                                                .label = "split, rows of packs",
                                                .inputs = {{{140, 24}},
                                                           {{500, 24}},
                                                           {{140}, Fill::kTargets, 500},
                                                           Scale(),
                                                           {{}, Fill::kPositive},
                                                           {{500, 24}}},
                                                .attributes = Split(),
                                                .float32_inputs = {3},
                                                .compute_inputs = {4, 5},
                                                .low_precision_tolerance = kDlogits,
                                                .cuda_tolerance = kLogits,
                                                .dtypes = {graph::DType::kFloat32,
                                                           graph::DType::kBFloat16}});

}  // namespace
}  // namespace plimsoll::ops
