// Examples of batch normalization: a few channels and many, one group of samples and several.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

constexpr ExampleInput Absent() { return {{}, Fill::kAbsent}; }
ExampleInput Mean(graph::Shape shape) { return {shape, Fill::kSmall}; }
ExampleInput Variance(graph::Shape shape) { return {shape, Fill::kPositive}; }

const ExampleRegistration kStatistics({.op = "batch_norm_statistics",
                                       .label = "",
                                       .inputs = {{{3, 5, 4, 7}}},
                                       .attributes = {{"groups", 1}}});
const ExampleRegistration kStatisticsGroups({.op = "batch_norm_statistics",
                                             .label = "in groups",
                                             .inputs = {{{4, 30, 16}}},
                                             .attributes = {{"groups", 2}}});
const ExampleRegistration kStatisticsWide({.op = "batch_norm_statistics",
                                           .label = "many rows and channels",
                                           .inputs = {{{2, 20, 19, 72}}},
                                           .attributes = {{"groups", 1}}});
const ExampleRegistration kStatisticsBackward(
    {.op = "batch_norm_statistics_backward",
     .label = "accumulating",
     .inputs = {{{4, 9, 8}}, Mean({2, 8}), {{2, 8}}, {{2, 8}}, {{4, 9, 8}}},
     .compute_inputs = {1, 2, 3}});
const ExampleRegistration kStatisticsBackwardFresh(
    {.op = "batch_norm_statistics_backward",
     .label = "of the variance alone",
     .inputs = {{{3, 5, 7}}, Mean({1, 7}), Absent(), {{1, 7}}, Absent()},
     .compute_inputs = {1, 2, 3}});

const ExampleRegistration kMerge({.op = "merge_batch_norm_statistics",
                                  .label = "",
                                  .inputs = {{{3, 70}}, Variance({3, 70})},
                                  .attributes = {{"n", 5}},
                                  .dtypes = FullPrecision()});
const ExampleRegistration kMergeBackward({.op = "merge_batch_norm_statistics_backward",
                                          .label = "",
                                          .inputs = {{{2, 9}}, {{1, 9}}, {{1, 9}}, {{1, 9}}},
                                          .dtypes = FullPrecision()});
const ExampleRegistration kMergeBackwardOfVariance(
    {.op = "merge_batch_norm_statistics_backward",
     .label = "of the variance alone",
     .inputs = {{{4, 5}}, {{1, 5}}, Absent(), {{1, 5}}},
     .dtypes = FullPrecision()});

const ExampleRegistration kMergeChannels({.op = "merge_channel_statistics",
                                          .label = "",
                                          .inputs = {{{3, 12}}, Variance({3, 12})},
                                          .attributes = {{"groups", 4}},
                                          .dtypes = FullPrecision()});
const ExampleRegistration kMergeChannelsToOne({.op = "merge_channel_statistics",
                                               .label = "of all channels",
                                               .inputs = {{{2, 70}}, Variance({2, 70})},
                                               .attributes = {{"groups", 1}},
                                               .dtypes = FullPrecision()});
const ExampleRegistration kMergeChannelsBackward(
    {.op = "merge_channel_statistics_backward",
     .label = "",
     .inputs = {{{3, 8}}, {{3, 8}}, {{3, 8}}, {{3, 8}}},
     .attributes = {{"groups", 2}},
     .dtypes = FullPrecision()});

const ExampleRegistration kNorm(
    {.op = "batch_norm",
     .label = "",
     .inputs = {{{3, 4, 5, 7}}, Mean({1, 7}), Variance({1, 7}), {{7}}, {{7}}},
     .attributes = {{"eps", 1e-5}},
     .compute_inputs = {1, 2, 3, 4}});
const ExampleRegistration kNormGroups(
    {.op = "batch_norm",
     .label = "in groups",
     .inputs = {{{6, 5, 16}}, Mean({3, 16}), Variance({3, 16}), {{16}}, {{16}}},
     .attributes = {{"eps", 1e-3}},
     .compute_inputs = {1, 2, 3, 4}});
const ExampleRegistration kNormRelu(
    {.op = "batch_norm",
     .label = "relu",
     .inputs = {{{3, 20, 24}}, Mean({1, 24}), Variance({1, 24}), {{24}}, {{24}}},
     .attributes = {{"eps", 1e-5}, {"relu", true}},
     .compute_inputs = {1, 2, 3, 4}});
const ExampleRegistration kNormLeakyRelu(
    {.op = "batch_norm",
     .label = "leaky relu, of single samples",
     .inputs = {{{3, 4, 5, 2, 32}}, Mean({3, 32}), Variance({3, 32}), {{32}}, {{32}}},
     .attributes = {{"eps", 1e-5}, {"relu", true}, {"slope", 0.01}},
     .compute_inputs = {1, 2, 3, 4}});
const ExampleRegistration kNormResidual(
    {.op = "batch_norm",
     .label = "residual",
     .inputs = {{{3, 4, 5, 7}}, Mean({1, 7}), Variance({1, 7}), {{7}}, {{7}}, {{3, 4, 5, 7}}},
     .attributes = {{"eps", 1e-5}},
     .compute_inputs = {1, 2, 3, 4}});
const ExampleRegistration kNormResidualRelu(
    {.op = "batch_norm",
     .label = "residual, relu, in groups",
     .inputs = {{{4, 9, 24}}, Mean({2, 24}), Variance({2, 24}), {{24}}, {{24}}, {{4, 9, 24}}},
     .attributes = {{"eps", 1e-5}, {"relu", true}},
     .compute_inputs = {1, 2, 3, 4}});
const ExampleRegistration kResidualBackward({.op = "batch_norm_residual_backward",
                                             .label = "accumulating, in groups",
                                             .inputs = {{{4, 50, 24}},
                                                        {{4, 50, 24}},
                                                        {{4, 50, 24}},
                                                        Mean({2, 24}),
                                                        Variance({2, 24}),
                                                        {{24}},
                                                        {{4, 50, 24}},
                                                        {{24}},
                                                        {{24}}},
                                             .attributes = {{"eps", 1e-5}},
                                             .compute_inputs = {3, 4, 5, 7, 8},
                                             .low_precision_tolerance = 1});
const ExampleRegistration kResidualBackwardFresh({.op = "batch_norm_residual_backward",
                                                  .label = "written",
                                                  .inputs = {{{3, 20, 19, 7}},
                                                             {{3, 20, 19, 7}},
                                                             {{3, 20, 19, 7}},
                                                             Mean({1, 7}),
                                                             Variance({1, 7}),
                                                             {{7}},
                                                             Absent(),
                                                             Absent(),
                                                             Absent()},
                                                  .attributes = {{"eps", 1e-5}},
                                                  .compute_inputs = {3, 4, 5, 7, 8},
                                                  .low_precision_tolerance = 1});
const ExampleRegistration kNormBackward({.op = "batch_norm_backward",
                                         .label = "accumulating, in groups",
                                         .inputs = {{{4, 50, 24}},
                                                    {{4, 50, 24}},
                                                    Mean({2, 24}),
                                                    Variance({2, 24}),
                                                    {{24}},
                                                    {{4, 50, 24}},
                                                    {{24}},
                                                    {{24}}},
                                         .attributes = {{"eps", 1e-5}},
                                         .compute_inputs = {2, 3, 4, 6, 7}});
const ExampleRegistration kNormBackwardFresh({.op = "batch_norm_backward",
                                              .label = "written",
                                              .inputs = {{{3, 4, 5, 7}},
                                                         {{3, 4, 5, 7}},
                                                         Mean({1, 7}),
                                                         Variance({1, 7}),
                                                         {{7}},
                                                         Absent(),
                                                         Absent(),
                                                         Absent()},
                                              .attributes = {{"eps", 1e-5}},
                                              .compute_inputs = {2, 3, 4, 6, 7}});

const ExampleRegistration kNormBackwardThrough(
    {.op = "batch_norm_backward",
     .label = "through the statistics, relu",
     .inputs = {{{4, 30, 24}},
                {{4, 30, 24}},
                Mean({2, 24}),
                Variance({2, 24}),
                {{24}},
                {{4, 30, 24}},
                Absent(),
                Absent(),
                {{24}}},
     .attributes = {{"eps", 1e-5}, {"relu", true}, {"through_statistics", true}},
     .compute_inputs = {2, 3, 4, 6, 7, 8}});
const ExampleRegistration kNormBackwardLeakyRelu(
    {.op = "batch_norm_backward",
     .label = "through the statistics, leaky relu, of single samples",
     .inputs = {{{2, 3, 5, 4, 32}},
                {{2, 3, 5, 4, 32}},
                Mean({2, 32}),
                Variance({2, 32}),
                {{32}},
                Absent(),
                Absent(),
                Absent(),
                {{32}}},
     .attributes = {{"eps", 1e-5}, {"relu", true}, {"slope", 0.2}, {"through_statistics", true}},
     .compute_inputs = {2, 3, 4, 6, 7, 8},
     .low_precision_tolerance = 1});
const ExampleRegistration kNormBackwardRelu({.op = "batch_norm_backward",
                                             .label = "relu",
                                             .inputs = {{{3, 4, 5, 7}},
                                                        {{3, 4, 5, 7}},
                                                        Mean({1, 7}),
                                                        Variance({1, 7}),
                                                        {{7}},
                                                        Absent(),
                                                        Absent(),
                                                        Absent(),
                                                        {{7}}},
                                             .attributes = {{"eps", 1e-5}, {"relu", true}},
                                             .compute_inputs = {2, 3, 4, 6, 7, 8}});

}  // namespace
}  // namespace plimsoll::ops
