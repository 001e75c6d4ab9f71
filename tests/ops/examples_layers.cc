// Examples of embeddings, normalisations and optimizer updates.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

constexpr ExampleInput Absent() { return {{}, Fill::kAbsent}; }

// For large examples, without finite differences.
std::vector<graph::DType> LowAndSingle() {
  return {graph::DType::kFloat32, graph::DType::kBFloat16, graph::DType::kFloat16};
}

const ExampleRegistration kEmbedding({.op = "embedding",
                                      .label = "with positions",
                                      .inputs = {{{2, 5}, Fill::kTokens, 7}, {{7, 9}}, {{6, 9}}}});
const ExampleRegistration kEmbeddingPlain({.op = "embedding",
                                           .label = "tokens only",
                                           .inputs = {
                                               {{3, 4}, Fill::kTokens, 5}, {{5, 8}}, Absent()}});
const ExampleRegistration kEmbeddingShard(
    {.op = "embedding",
     .label = "one rank of an axis",
     .inputs = {{{2, 5}, Fill::kTokens, 7}, {{7, 9}}, {{6, 9}}},
     .attributes = {{"axis", std::string("tensor")}}});
const ExampleRegistration kEmbeddingDw(
    {.op = "embedding_dw",
     .label = "accumulating, several slabs of columns",
     .inputs = {{{4, 9}, Fill::kTokens, 7}, {{4, 9, 150}}, {{11, 150}}},
     .attributes = {{"rows", int64_t{11}}},
     .compute_inputs = {2}});
const ExampleRegistration kEmbeddingDwFresh(
    {.op = "embedding_dw",
     .label = "written",
     .inputs = {{{4, 9}, Fill::kTokens, 7}, {{4, 9, 70}}, Absent()},
     .attributes = {{"rows", int64_t{300}}},
     .compute_inputs = {2}});
const ExampleRegistration kEmbeddingDwShard(
    {.op = "embedding_dw",
     .label = "one rank of an axis",
     .inputs = {{{4, 9}, Fill::kTokens, 7}, {{4, 9, 16}}, {{7, 16}}},
     .attributes = {{"rows", int64_t{7}}, {"axis", std::string("tensor")}},
     .compute_inputs = {2}});
const graph::Attributes kLowEmbedding = {
    {"rows", int64_t{11}}, {"key", int64_t{5}}, {"low_gradient", true}};
const ExampleRegistration kEmbeddingDwLow(
    {.op = "embedding_dw",
     .label = "added to in bf16",
     .inputs = {{{8, 9}, Fill::kTokens, 7}, {{8, 9, 48}}, {{11, 48}}, {{2}, Fill::kCounter}},
     .attributes = kLowEmbedding,
     .dtypes = {graph::DType::kBFloat16}});
const ExampleRegistration kEmbeddingDwLowOdd(
    {.op = "embedding_dw",
     .label = "added to in bf16, rows of 13",
     .inputs = {{{4, 9}, Fill::kTokens, 7}, {{4, 9, 13}}, {{11, 13}}, {{2}, Fill::kCounter}},
     .attributes = kLowEmbedding,
     .dtypes = {graph::DType::kBFloat16}});
const ExampleRegistration kEmbeddingDwLowFresh(
    {.op = "embedding_dw",
     .label = "written in bf16",
     .inputs = {{{4, 9}, Fill::kTokens, 7}, {{4, 9, 16}}, Absent(), {{2}, Fill::kCounter}},
     .attributes = kLowEmbedding,
     .dtypes = {graph::DType::kBFloat16}});
const ExampleRegistration kPositionDw({.op = "position_dw",
                                       .label = "accumulating",
                                       .inputs = {{{3, 5, 19}}, {{8, 19}}},
                                       .attributes = {{"rows", int64_t{8}}},
                                       .compute_inputs = {1}});
const ExampleRegistration kPositionDwFresh({.op = "position_dw",
                                            .label = "written",
                                            .inputs = {{{3, 40, 1003}}, Absent()},
                                            .attributes = {{"rows", int64_t{41}}},
                                            .compute_inputs = {1}});

const ExampleRegistration kEmbeddingFrom(
    {.op = "embedding",
     .label = "positions from 3",
     .inputs = {{{2, 5}, Fill::kTokens, 7}, {{7, 9}}, {{8, 9}}, {{1}, Fill::kCounter}}});
const ExampleRegistration kPositionDwFrom(
    {.op = "position_dw",
     .label = "accumulating from 3",
     .inputs = {{{3, 5, 19}}, {{9, 19}}, {{1}, Fill::kCounter}},
     .attributes = {{"rows", int64_t{9}}},
     .compute_inputs = {1}});

const ExampleRegistration kLayerNorm({.op = "layer_norm",
                                      .label = "with bias",
                                      .inputs = {{{2, 3, 13}}, {{13}}, {{13}}},
                                      .attributes = {{"eps", 1e-5}}});
const ExampleRegistration kLayerNormPlain({.op = "layer_norm",
                                           .label = "without bias",
                                           .inputs = {{{5, 40}}, {{40}}, Absent()},
                                           .attributes = {{"eps", 1e-5}}});
const ExampleRegistration kLayerNormBackward({.op = "layer_norm_backward",
                                              .label = "accumulating",
                                              .inputs = {{{2, 101, 37}},
                                                         {{37}},
                                                         {{202}, Fill::kSmall},
                                                         {{202}, Fill::kPositive},
                                                         {{2, 101, 37}},
                                                         {{2, 101, 37}},
                                                         {{37}},
                                                         {{37}}},
                                              .compute_inputs = {2, 3, 6, 7}});
const ExampleRegistration kLayerNormBackwardWide({.op = "layer_norm_backward",
                                                  .label = "written, many rows",
                                                  .inputs = {{{1100, 70}},
                                                             {{70}},
                                                             {{1100}, Fill::kSmall},
                                                             {{1100}, Fill::kPositive},
                                                             {{1100, 70}},
                                                             Absent(),
                                                             Absent(),
                                                             Absent()},
                                                  .compute_inputs = {2, 3, 6, 7}});

const ExampleRegistration kRmsNorm({.op = "rms_norm",
                                    .label = "",
                                    .inputs = {{{2, 3, 45}}, {{45}}},
                                    .attributes = {{"eps", 1e-5}}});
const ExampleRegistration kRmsNormBackward(
    {.op = "rms_norm_backward",
     .label = "accumulating",
     .inputs = {{{101, 37}}, {{37}}, {{101}, Fill::kPositive}, {{101, 37}}, {{101, 37}}, {{37}}},
     .compute_inputs = {2, 5}});
const ExampleRegistration kRmsNormBackwardWide(
    {.op = "rms_norm_backward",
     .label = "written, many rows",
     .inputs = {{{1100, 70}}, {{70}}, {{1100}, Fill::kPositive}, {{1100, 70}}, Absent(), Absent()},
     .compute_inputs = {2, 5}});

// Rows of whole 16-byte packs: in the registers of a warp, of a block; and several rows per block.
const ExampleRegistration kLayerNormPacks({.op = "layer_norm",
                                           .label = "rows of packs",
                                           .inputs = {{{3, 48}}, {{48}}, {{48}}},
                                           .attributes = {{"eps", 1e-5}}});
const ExampleRegistration kLayerNormWide({.op = "layer_norm",
                                          .label = "wide rows",
                                          .inputs = {{{2, 2304}}, {{2304}}, {{2304}}},
                                          .attributes = {{"eps", 1e-5}},
                                          .dtypes = LowAndSingle()});
const ExampleRegistration kLayerNormBackwardPacks({.op = "layer_norm_backward",
                                                   .label = "accumulating, rows of packs",
                                                   .inputs = {{{67, 320}},
                                                              {{320}},
                                                              {{67}, Fill::kSmall},
                                                              {{67}, Fill::kPositive},
                                                              {{67, 320}},
                                                              {{67, 320}},
                                                              {{320}},
                                                              {{320}}},
                                                   .compute_inputs = {2, 3, 6, 7},
                                                   .dtypes = LowAndSingle()});
const ExampleRegistration kRmsNormPacks({.op = "rms_norm",
                                         .label = "rows of packs",
                                         .inputs = {{{3, 48}}, {{48}}},
                                         .attributes = {{"eps", 1e-5}}});
const ExampleRegistration kRmsNormBackwardPacks(
    {.op = "rms_norm_backward",
     .label = "accumulating, rows of packs",
     .inputs = {{{67, 320}}, {{320}}, {{67}, Fill::kPositive}, {{67, 320}}, {{67, 320}}, {{320}}},
     .compute_inputs = {2, 5},
     .dtypes = LowAndSingle()});

// The rounding error of a 16-bit sum reappears in y, multiplied by rstd and weight.
const ExampleRegistration kAddLayerNorm({.op = "add_layer_norm",
                                         .label = "with bias",
                                         .inputs = {{{2, 3, 13}}, {{2, 3, 13}}, {{13}}, {{13}}},
                                         .attributes = {{"eps", 1e-5}},
                                         .low_precision_tolerance = 2});
const ExampleRegistration kAddLayerNormPacks({.op = "add_layer_norm",
                                              .label = "without bias, rows of packs",
                                              .inputs = {{{5, 48}}, {{5, 48}}, {{48}}, Absent()},
                                              .attributes = {{"eps", 1e-5}},
                                              .low_precision_tolerance = 2});
const ExampleRegistration kAddRmsNorm({.op = "add_rms_norm",
                                       .label = "",
                                       .inputs = {{{2, 3, 45}}, {{2, 3, 45}}, {{45}}},
                                       .attributes = {{"eps", 1e-5}},
                                       .low_precision_tolerance = 2});
const ExampleRegistration kAddRmsNormPacks({.op = "add_rms_norm",
                                            .label = "rows of packs",
                                            .inputs = {{{5, 48}}, {{5, 48}}, {{48}}},
                                            .attributes = {{"eps", 1e-5}},
                                            .low_precision_tolerance = 2});

// With dropout: rows of no whole packs; several rows of packs a block; rows of one block each.
const graph::Attributes kDropsBeforeNorm = {{"eps", 1e-5}, {"p", 0.3}, {"key", int64_t{11}}};
const graph::Attributes kDropsGradient = {{"p", 0.3}, {"key", int64_t{11}}};
const ExampleRegistration kDropAddLayerNorm(
    {.op = "add_layer_norm",
     .label = "dropout",
     .inputs = {{{2, 3, 13}}, {{2, 3, 13}}, {{13}}, {{13}}, {{2}, Fill::kCounter}},
     .attributes = kDropsBeforeNorm,
     .low_precision_tolerance = 4});
const ExampleRegistration kDropAddLayerNormPacks(
    {.op = "add_layer_norm",
     .label = "dropout, rows of packs",
     .inputs = {{{5, 72}}, {{5, 72}}, {{72}}, Absent(), {{2}, Fill::kCounter}},
     .attributes = kDropsBeforeNorm,
     .low_precision_tolerance = 4});
const ExampleRegistration kDropAddLayerNormWide(
    {.op = "add_layer_norm",
     .label = "dropout, wide rows",
     .inputs = {{{2, 2312}}, {{2, 2312}}, {{2312}}, {{2312}}, {{2}, Fill::kCounter}},
     .attributes = kDropsBeforeNorm,
     .low_precision_tolerance = 4,
     .dtypes = LowAndSingle()});
const ExampleRegistration kDropAddRmsNorm(
    {.op = "add_rms_norm",
     .label = "dropout",
     .inputs = {{{2, 3, 45}}, {{2, 3, 45}}, {{45}}, {{2}, Fill::kCounter}},
     .attributes = kDropsBeforeNorm,
     .low_precision_tolerance = 4});
const ExampleRegistration kDropAddRmsNormPacks(
    {.op = "add_rms_norm",
     .label = "dropout, rows of packs",
     .inputs = {{{5, 72}}, {{5, 72}}, {{72}}, {{2}, Fill::kCounter}},
     .attributes = kDropsBeforeNorm,
     .low_precision_tolerance = 4});
const ExampleRegistration kLayerNormBackwardDrop({.op = "layer_norm_backward",
                                                  .label = "accumulating, dropout",
                                                  .inputs = {{{2, 21, 37}},
                                                             {{37}},
                                                             {{42}, Fill::kSmall},
                                                             {{42}, Fill::kPositive},
                                                             {{2, 21, 37}},
                                                             {{2, 21, 37}},
                                                             {{37}},
                                                             {{37}},
                                                             {{2}, Fill::kCounter}},
                                                  .attributes = kDropsGradient,
                                                  .compute_inputs = {2, 3, 6, 7},
                                                  .low_precision_tolerance = 2});
const ExampleRegistration kLayerNormBackwardDropPacks({.op = "layer_norm_backward",
                                                       .label = "dropout, rows of packs",
                                                       .inputs = {{{67, 328}},
                                                                  {{328}},
                                                                  {{67}, Fill::kSmall},
                                                                  {{67}, Fill::kPositive},
                                                                  {{67, 328}},
                                                                  Absent(),
                                                                  Absent(),
                                                                  Absent(),
                                                                  {{2}, Fill::kCounter}},
                                                       .attributes = kDropsGradient,
                                                       .compute_inputs = {2, 3},
                                                       .low_precision_tolerance = 2,
                                                       .dtypes = LowAndSingle()});
const ExampleRegistration kRmsNormBackwardDrop({.op = "rms_norm_backward",
                                                .label = "accumulating, dropout",
                                                .inputs = {{{67, 328}},
                                                           {{328}},
                                                           {{67}, Fill::kPositive},
                                                           {{67, 328}},
                                                           {{67, 328}},
                                                           {{328}},
                                                           {{2}, Fill::kCounter}},
                                                .attributes = kDropsGradient,
                                                .compute_inputs = {2, 5},
                                                .low_precision_tolerance = 2});

const ExampleRegistration kLayerNormWithBackward({.op = "layer_norm_with_backward",
                                                  .label = "accumulating",
                                                  .inputs = {{{2, 21, 37}},
                                                             {{37}},
                                                             {{37}},
                                                             {{42}, Fill::kSmall},
                                                             {{42}, Fill::kPositive},
                                                             {{2, 21, 37}},
                                                             {{2, 21, 37}},
                                                             {{37}},
                                                             {{37}}},
                                                  .compute_inputs = {3, 4, 7, 8}});
const ExampleRegistration kRmsNormWithBackward(
    {.op = "rms_norm_with_backward",
     .label = "accumulating",
     .inputs = {{{42, 37}}, {{37}}, {{42}, Fill::kPositive}, {{42, 37}}, {{42, 37}}, {{37}}},
     .compute_inputs = {2, 5}});

const ExampleRegistration kLayerNormWithBackwardDrop({.op = "layer_norm_with_backward",
                                                      .label = "accumulating, dropout",
                                                      .inputs = {{{42, 72}},
                                                                 {{72}},
                                                                 {{72}},
                                                                 {{42}, Fill::kSmall},
                                                                 {{42}, Fill::kPositive},
                                                                 {{42, 72}},
                                                                 {{42, 72}},
                                                                 {{72}},
                                                                 {{72}},
                                                                 {{2}, Fill::kCounter}},
                                                      .attributes = kDropsGradient,
                                                      .compute_inputs = {3, 4, 7, 8},
                                                      .low_precision_tolerance = 2});
const ExampleRegistration kRmsNormWithBackwardDrop({.op = "rms_norm_with_backward",
                                                    .label = "accumulating, dropout",
                                                    .inputs = {{{42, 37}},
                                                               {{37}},
                                                               {{42}, Fill::kPositive},
                                                               {{42, 37}},
                                                               {{42, 37}},
                                                               {{37}},
                                                               {{2}, Fill::kCounter}},
                                                    .attributes = kDropsGradient,
                                                    .compute_inputs = {2, 5},
                                                    .low_precision_tolerance = 2});

const ExampleRegistration kLossScaleStep({.op = "loss_scale_step",
                                          .label = "grows",
                                          .inputs = {{{}, Fill::kPositive},
                                                     {{}, Fill::kPositive},
                                                     {{}, Fill::kCounter},
                                                     {{2}, Fill::kCounter}},
                                          .attributes = {{"dynamic", true},
                                                         {"growth_factor", 2.0},
                                                         {"backoff_factor", 0.5},
                                                         {"growth_interval", int64_t{4}},
                                                         {"min_scale", 1.0}},
                                          .float32_inputs = {0, 1}});
const ExampleRegistration kLossScaleStepWithALimit({.op = "loss_scale_step",
                                                    .label = "loss with a limit",
                                                    .inputs = {{{}, Fill::kPositive},
                                                               {{}, Fill::kPositive},
                                                               {{}, Fill::kCounter},
                                                               {{2}, Fill::kCounter},
                                                               {{}, Fill::kPositive},
                                                               {{}, Fill::kSmall}},
                                                    .attributes = {{"dynamic", true},
                                                                   {"growth_factor", 2.0},
                                                                   {"backoff_factor", 0.5},
                                                                   {"growth_interval", int64_t{4}},
                                                                   {"min_scale", 1.0}},
                                                    .float32_inputs = {0, 1, 4, 5}});

// A loss beyond its limit, and one within it.
const ExampleRegistration kUpdateGateSkips({.op = "update_gate",
                                            .label = "skips",
                                            .inputs = {{{}, Fill::kPositive},
                                                       {{}, Fill::kPositive},
                                                       {{}, Fill::kSmall},
                                                       {{2}, Fill::kCounter}},
                                            .float32_inputs = {0, 1, 2}});
const ExampleRegistration kUpdateGateApplies({.op = "update_gate",
                                              .label = "applies",
                                              .inputs = {{{}, Fill::kPositive},
                                                         {{}, Fill::kSmall},
                                                         {{}, Fill::kPositive},
                                                         {{2}, Fill::kCounter}},
                                              .float32_inputs = {0, 1, 2}});

}  // namespace
}  // namespace plimsoll::ops
