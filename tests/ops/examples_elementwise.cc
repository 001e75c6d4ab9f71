// Examples of arithmetic, activations, dropout, reductions and shape ops. Sizes are not multiples
// of a vector's length, and some exceed one chunk of a threaded loop.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const graph::Shape kSmallShape = {3, 7, 5};
// More than two chunks of 16384 elements; not for finite differences, which perturb every element.
const graph::Shape kLarge = {33, 1001};

const ExampleRegistration kAdd({.op = "add",
                                .label = "",
                                .inputs = {{kSmallShape}, {kSmallShape}}});
const ExampleRegistration kAddIntegers({.op = "add",
                                        .label = "integers",
                                        .inputs = {{kLarge, Fill::kTokens, 1 << 20},
                                                   {kLarge, Fill::kTokens, 1 << 20}},
                                        .dtypes = {graph::DType::kFloat32}});
const ExampleRegistration kMul({.op = "mul",
                                .label = "",
                                .inputs = {{kSmallShape}, {kSmallShape}}});
const ExampleRegistration kScale(
    {.op = "scale", .label = "", .inputs = {{kSmallShape}}, .attributes = {{"factor", -2.5}}});
const ExampleRegistration kScaleBy({.op = "scale_by",
                                    .label = "f32 scalar",
                                    .inputs = {{kSmallShape}, {{}, Fill::kPositive}},
                                    .float32_inputs = {1}});
const ExampleRegistration kScaleByOwn({.op = "scale_by",
                                       .label = "scalar of the same dtype",
                                       .inputs = {{kSmallShape}, {{}}}});
const ExampleRegistration kCastUp({.op = "cast",
                                   .label = "to f64",
                                   .inputs = {{kSmallShape}},
                                   .attributes = {{"dtype", std::string("f64")}}});
// Without communicators a rank is alone.
const ExampleRegistration kAllReduceStart({.op = "all_reduce_start",
                                           .label = "",
                                           .inputs = {{kLarge}},
                                           .attributes = {{"axis", std::string("data")}}});
const ExampleRegistration kAllReduceDone({.op = "all_reduce_done",
                                          .label = "",
                                          .inputs = {{kSmallShape}}});
const ExampleRegistration kReduceScatterStart(
    {.op = "reduce_scatter_start",
     .label = "",
     .inputs = {{{4, 6}}},
     .attributes = {{"axis", std::string("data")}, {"rank", int64_t{1}}, {"d0", int64_t{24}}}});
const ExampleRegistration kReduceScatterDone({.op = "reduce_scatter_done",
                                              .label = "",
                                              .inputs = {{kSmallShape}, {kSmallShape}}});
const ExampleRegistration kAllGatherStart({.op = "all_gather_start",
                                           .label = "",
                                           .inputs = {{{24}}},
                                           .attributes = {{"axis", std::string("tensor")},
                                                          {"rank", int64_t{2}},
                                                          {"d0", int64_t{4}},
                                                          {"d1", int64_t{6}}}});
const ExampleRegistration kAllGatherDone({.op = "all_gather_done",
                                          .label = "",
                                          .inputs = {{kSmallShape}, {kSmallShape}}});
const ExampleRegistration kSumGradient({.op = "sum_gradient",
                                        .label = "",
                                        .inputs = {{kSmallShape}},
                                        .attributes = {{"axis", std::string("tensor")}}});
const ExampleRegistration kPlaceColumns({.op = "place_columns",
                                         .label = "of the first of three ranks",
                                         .inputs = {{{4, 6}}},
                                         .attributes = {{"axis", std::string("tensor")},
                                                        {"ranks", int64_t{3}}}});
const ExampleRegistration kOwnPart({.op = "own_part",
                                    .label = "of one rank",
                                    .inputs = {{{4, 6}}},
                                    .attributes = {{"rank", int64_t{1}}, {"d0", int64_t{24}}}});
const ExampleRegistration kSlice(
    {.op = "slice",
     .label = "of a part",
     .inputs = {{{4, 6}}},
     .attributes = {
         {"first", int64_t{5}}, {"rank", int64_t{2}}, {"d0", int64_t{3}}, {"d1", int64_t{4}}}});
const ExampleRegistration kPackOne({.op = "pack", .label = "one tensor", .inputs = {{{7}}}});
const ExampleRegistration kPackSeveral(
    {.op = "pack",
     .label = "several tensors",
     .inputs = {{{17, 5003}}, {{3}}, {{0, 4}}, {{64}}, {{}}, {{70001}}}});
const ExampleRegistration kFirstPart({.op = "first_part",
                                      .label = "of three",
                                      .inputs = {{{3, 6}}},
                                      .attributes = {{"rank", int64_t{1}}, {"d0", int64_t{6}}}});
const ExampleRegistration kCopyStart({.op = "copy_start", .label = "", .inputs = {{kLarge}}});
const ExampleRegistration kCopyDone({.op = "copy_done",
                                     .label = "",
                                     .inputs = {{kSmallShape}, {kSmallShape}}});
// The tolerance is the rounding error of float divided by the step of the finite difference.
const ExampleRegistration kCastDown({.op = "cast",
                                     .label = "to f32",
                                     .inputs = {{kSmallShape}},
                                     .attributes = {{"dtype", std::string("f32")}},
                                     .tolerance = 0.1});
const ExampleRegistration kCastToInt({.op = "cast",
                                      .label = "from i32",
                                      .inputs = {{{9}, Fill::kTokens, 100}},
                                      .attributes = {{"dtype", std::string("f32")}}});
// Rounding to 16 bits is a step function: no finite differences.
const std::vector<graph::DType> kNarrow = {graph::DType::kFloat32, graph::DType::kBFloat16,
                                           graph::DType::kFloat16};
const ExampleRegistration kCastToBf16({.op = "cast",
                                       .label = "to bf16",
                                       .inputs = {{kLarge}},
                                       .attributes = {{"dtype", std::string("bf16")}},
                                       .dtypes = kNarrow});
const ExampleRegistration kCastToF16({.op = "cast",
                                      .label = "to f16",
                                      .inputs = {{kLarge}},
                                      .attributes = {{"dtype", std::string("f16")}},
                                      .dtypes = kNarrow});
const ExampleRegistration kCastIntToF16({.op = "cast",
                                         .label = "from i32 to f16",
                                         .inputs = {{{9}, Fill::kTokens, 100}},
                                         .attributes = {{"dtype", std::string("f16")}}});
const ExampleRegistration kFillNarrow({.op = "fill",
                                       .label = "bf16",
                                       .inputs = {},
                                       .attributes = {{"dtype", std::string("bf16")},
                                                      {"value", 0.1},
                                                      {"rank", int64_t{1}},
                                                      {"d0", int64_t{5}}}});
const ExampleRegistration kFillScalar({.op = "fill",
                                       .label = "scalar",
                                       .inputs = {},
                                       .attributes = {{"dtype", std::string("f32")},
                                                      {"value", 1.0}}});
const ExampleRegistration kFillTensor({.op = "fill",
                                       .label = "tensor",
                                       .inputs = {},
                                       .attributes = {{"dtype", std::string("f64")},
                                                      {"value", -0.5},
                                                      {"rank", int64_t{2}},
                                                      {"d0", int64_t{5}},
                                                      {"d1", int64_t{3}}}});
const ExampleRegistration kFillInteger({.op = "fill",
                                        .label = "integer",
                                        .inputs = {},
                                        .attributes = {{"dtype", std::string("i32")},
                                                       {"value", int64_t{7}},
                                                       {"rank", int64_t{1}},
                                                       {"d0", int64_t{5}}}});

const ExampleRegistration kGeluTanh({.op = "gelu",
                                     .label = "tanh",
                                     .inputs = {{kSmallShape}},
                                     .attributes = {{"approximate", std::string("tanh")}}});
const ExampleRegistration kGelu({.op = "gelu",
                                 .label = "exact",
                                 .inputs = {{kSmallShape}},
                                 .attributes = {{"approximate", std::string("none")}}});
const ExampleRegistration kGeluBackwardTanh({.op = "gelu_backward",
                                             .label = "tanh",
                                             .inputs = {{kLarge}, {kLarge}},
                                             .attributes = {{"approximate", std::string("tanh")}}});
const ExampleRegistration kGeluBackward({.op = "gelu_backward",
                                         .label = "exact",
                                         .inputs = {{kLarge}, {kLarge}},
                                         .attributes = {{"approximate", std::string("none")}}});
// The bias's gradient sums gradients that are rounded already, whose errors partly cancel: the
// measured error was a third of one rounding, relative to the largest sum.
constexpr double kSumOfRounded = 0.35;
const ExampleRegistration kGeluWithBackward({.op = "gelu_with_backward",
                                             .label = "accumulating the bias",
                                             .inputs = {{{7, 31, 264}}, {{7, 31, 264}}, {{264}}},
                                             .attributes = {{"approximate", std::string("tanh")}},
                                             .compute_inputs = {2},
                                             .low_precision_tolerance = kSumOfRounded});
const ExampleRegistration kGeluWithBackwardOdd({.op = "gelu_with_backward",
                                                .label = "exact, odd width",
                                                .inputs = {{{301, 37}}, {{301, 37}}},
                                                .attributes = {{"approximate",
                                                                std::string("none")}},
                                                .low_precision_tolerance = kSumOfRounded});
const ExampleRegistration kSilu({.op = "silu", .label = "", .inputs = {{kSmallShape}}});
const ExampleRegistration kSiluBackward({.op = "silu_backward",
                                         .label = "",
                                         .inputs = {{kLarge}, {kLarge}}});
const ExampleRegistration kSwiglu({.op = "swiglu", .label = "", .inputs = {{{3, 4, 22}}}});
const ExampleRegistration kSwigluBackward({.op = "swiglu_backward",
                                           .label = "",
                                           .inputs = {{{40, 2 * 421}}, {{40, 421}}}});

const ExampleRegistration kSwigluWithBackward({.op = "swiglu_with_backward",
                                               .label = "",
                                               .inputs = {{{40, 2 * 421}}, {{40, 421}}}});
const ExampleRegistration kSwigluWithBackwardPacks({.op = "swiglu_with_backward",
                                                    .label = "whole packs",
                                                    .inputs = {{{5, 9, 2 * 88}}, {{5, 9, 88}}}});

const ExampleRegistration kRelu({.op = "relu", .label = "", .inputs = {{kSmallShape}}});
const ExampleRegistration kReluBackward({.op = "relu_backward",
                                         .label = "",
                                         .inputs = {{kLarge}, {kLarge}}});
const ExampleRegistration kLeakyRelu(
    {.op = "leaky_relu", .label = "", .inputs = {{kSmallShape}}, .attributes = {{"slope", 0.01}}});
const ExampleRegistration kLeakyReluBackward({.op = "leaky_relu_backward",
                                              .label = "",
                                              .inputs = {{kLarge}, {kLarge}},
                                              .attributes = {{"slope", 0.3}}});
const ExampleRegistration kSigmoid({.op = "sigmoid", .label = "", .inputs = {{kSmallShape}}});
const ExampleRegistration kSigmoidBackward({.op = "sigmoid_backward",
                                            .label = "",
                                            .inputs = {{kLarge}, {kLarge}}});
const ExampleRegistration kTanh({.op = "tanh", .label = "", .inputs = {{kSmallShape}}});
const ExampleRegistration kTanhBackward({.op = "tanh_backward",
                                         .label = "",
                                         .inputs = {{kLarge}, {kLarge}}});

const ExampleRegistration kDropout({.op = "dropout",
                                    .label = "",
                                    .inputs = {{kSmallShape}, {{2}, Fill::kCounter}},
                                    .attributes = {{"p", 0.3}, {"key", int64_t{17}}}});
const ExampleRegistration kDropoutScores({.op = "dropout",
                                          .label = "scores",
                                          .inputs = {{{2, 2, 2 * 37, 37}}, {{2}, Fill::kCounter}},
                                          .attributes = {
                                              {"p", 0.3}, {"key", int64_t{17}}, {"scores", true}}});
const ExampleRegistration kDropoutNothing({.op = "dropout",
                                           .label = "keeps all",
                                           .inputs = {{kSmallShape}, {{2}, Fill::kCounter}},
                                           .attributes = {{"p", 0.0}, {"key", int64_t{17}}}});

const ExampleRegistration kDropPath({.op = "drop_path",
                                     .label = "",
                                     .inputs = {{{40, 3}}, {{2}, Fill::kCounter}},
                                     .attributes = {{"p", 0.4}, {"key", int64_t{17}}}});
const ExampleRegistration kDropPathLarge({.op = "drop_path",
                                          .label = "chunks within samples",
                                          .inputs = {{{5, 40000}}, {{2}, Fill::kCounter}},
                                          .attributes = {{"p", 0.5}, {"key", int64_t{3}}},
                                          .dtypes = {graph::DType::kFloat32}});

graph::Attributes Key() { return {{"key", int64_t{17}}}; }
ExampleInput RoundedSum(graph::Shape shape) {
  return {shape, Fill::kNormal, 0, graph::DType::kBFloat16};
}
const ExampleRegistration kAddRounded(
    {.op = "add_rounded",
     .label = "a partial block",
     .inputs = {RoundedSum({3, 7}), {{3, 7}}, {{2}, Fill::kCounter}},
     .attributes = Key(),
     .dtypes = {graph::DType::kFloat32, graph::DType::kBFloat16}});
const ExampleRegistration kAddRoundedLarge(
    {.op = "add_rounded",
     .label = "several chunks",
     .inputs = {RoundedSum({70, 701}), {{70, 701}}, {{2}, Fill::kCounter}},
     .attributes = Key(),
     .dtypes = {graph::DType::kFloat32, graph::DType::kBFloat16}});

const ExampleRegistration kSum({.op = "sum", .label = "", .inputs = {{kSmallShape}}});
const ExampleRegistration kSquaredNorm({.op = "squared_norm",
                                        .label = "",
                                        .inputs = {{kSmallShape}}});
const ExampleRegistration kGlobalNormOne({.op = "global_norm",
                                          .label = "one tensor",
                                          .inputs = {{{7}}}});
const ExampleRegistration kGlobalNorm({.op = "global_norm",
                                       .label = "several chunks",
                                       .inputs = {{{17, 5003}}, {{3}}, {{0, 4}}, {{70001}}, {{}}}});
const ExampleRegistration kSquareSum({.op = "square_sum",
                                      .label = "several chunks",
                                      .inputs = {{{17, 5003}}}});
const ExampleRegistration kSquareSumOfNothing({.op = "square_sum",
                                               .label = "of nothing",
                                               .inputs = {{{0, 4}}}});
const ExampleRegistration kRootOfSums(
    {.op = "root_of_sums",
     .label = "",
     .inputs = {{{}, Fill::kPositive}, {{}, Fill::kPositive}, {{}, Fill::kPositive}},
     .dtypes = {graph::DType::kFloat64}});
const ExampleRegistration kClipFactor({.op = "clip_factor",
                                       .label = "clips",
                                       .inputs = {{{}, Fill::kPositive}},
                                       .attributes = {{"max_norm", 0.25}},
                                       .float32_inputs = {0}});
const ExampleRegistration kClipFactorNot({.op = "clip_factor",
                                          .label = "keeps",
                                          .inputs = {{{}, Fill::kPositive}},
                                          .attributes = {{"max_norm", 2.0}},
                                          .float32_inputs = {0}});

const ExampleRegistration kView(
    {.op = "view",
     .label = "",
     .inputs = {{{4, 6}}},
     .attributes = {
         {"rank", int64_t{3}}, {"d0", int64_t{2}}, {"d1", int64_t{2}}, {"d2", int64_t{6}}}});
const ExampleRegistration kStopGradient({.op = "stop_gradient", .label = "", .inputs = {{{4, 6}}}});
const ExampleRegistration kSelectRows({.op = "select_rows",
                                       .label = "",
                                       .inputs = {{{3, 4, 5}}, {{3}, Fill::kTokens, 4}}});

}  // namespace
}  // namespace plimsoll::ops
