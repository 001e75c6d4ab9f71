// Optimizer updates, for each way to store weights and moments.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

// More than one chunk of a thread's work, and a partial last block.
const graph::Shape kLarge = {20, 1001};
const graph::Shape kLargeScales = {79};
const graph::Shape kSmall = {11};
const graph::Shape kSmallScales = {1};

constexpr ExampleInput Absent() { return {{}, Fill::kAbsent}; }
constexpr ExampleInput Scalar() { return {{}, Fill::kPositive, 0, DType::kFloat32}; }
constexpr ExampleInput Count() { return {{}, Fill::kCounter}; }
constexpr ExampleInput Apply() { return {{}, Fill::kCounter}; }
ExampleInput Rng() { return {{2}, Fill::kCounter}; }
ExampleInput Float32(graph::Shape shape, Fill fill = Fill::kNormal) {
  return {shape, fill, 0, DType::kFloat32};
}
ExampleInput BFloat16(graph::Shape shape, Fill fill = Fill::kNormal) {
  return {shape, fill, 0, DType::kBFloat16};
}
ExampleInput Remainder(graph::Shape shape) { return {shape, Fill::kBits, 0, DType::kInt16}; }
ExampleInput Codes(graph::Shape shape) { return {shape, Fill::kBits, 0, DType::kUInt8}; }

graph::Attributes AdamW(double weight_decay) {
  return {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", weight_decay}};
}
graph::Attributes WithKey(graph::Attributes attributes) {
  attributes.Set("key", int64_t{5});
  return attributes;
}
graph::Attributes Sgd(double momentum, bool nesterov, double weight_decay) {
  return {{"momentum", momentum}, {"nesterov", nesterov}, {"weight_decay", weight_decay}};
}

graph::Attributes WithLrFactor(graph::Attributes attributes) {
  attributes.Set("lr_factor", 0.3);
  return attributes;
}

const ExampleRegistration kIncrement({.op = "increment", .label = "", .inputs = {Count()}});
const ExampleRegistration kIncrementGated({.op = "increment",
                                           .label = "applied",
                                           .inputs = {Count(), Apply()}});

const ExampleRegistration kMovingAverage({.op = "moving_average",
                                          .label = "",
                                          .inputs = {{kLarge}, {kLarge}},
                                          .attributes = {{"momentum", 0.1}}});
const ExampleRegistration kMovingAverageOfGroups({.op = "moving_average",
                                                  .label = "of three groups",
                                                  .inputs = {{{5, 9}}, {{3, 5, 9}}},
                                                  .attributes = {{"momentum", 0.3}}});
const ExampleRegistration kAddToState({.op = "add_to_state",
                                       .label = "",
                                       .inputs = {{kLarge}, {kLarge}}});
const ExampleRegistration kCommitState({.op = "commit_state",
                                        .label = "of three ranks",
                                        .inputs = {Float32(kLarge), Float32(kLarge)},
                                        .attributes = {{"parts", int64_t{3}}},
                                        .dtypes = {DType::kFloat32}});
const ExampleRegistration kCommitStateGated({.op = "commit_state",
                                             .label = "gated",
                                             .inputs = {Float32(kSmall), Float32(kSmall), Apply()},
                                             .attributes = {{"parts", int64_t{1}}},
                                             .dtypes = {DType::kFloat32}});

graph::Attributes Decay(double decay, bool warmup) {
  return {{"decay", decay}, {"warmup", warmup}};
}

const ExampleRegistration kWeightAverage({.op = "weight_average",
                                          .label = "",
                                          .inputs = {{kLarge}, {kLarge}, Count()},
                                          .attributes = Decay(0.9, false),
                                          .dtypes = FullPrecision()});
const ExampleRegistration kWeightAverageWarmup(
    {.op = "weight_average",
     .label = "warm-up",
     .inputs = {{kSmall}, {kSmall}, Count(), Absent(), Apply()},
     .attributes = Decay(0.999, true),
     .dtypes = FullPrecision()});
const ExampleRegistration kWeightAverageSplit(
    {.op = "weight_average",
     .label = "bf16 with remainder",
     .inputs = {Float32(kLarge), {kLarge}, Count(), Remainder(kLarge), Apply()},
     .attributes = Decay(0.9, false),
     .dtypes = {DType::kBFloat16}});
const ExampleRegistration kWeightAverageMaster(
    {.op = "weight_average",
     .label = "float32 master",
     .inputs = {Float32(kLarge), {kLarge}, Count(), Float32(kLarge)},
     .attributes = Decay(0.9, false),
     .dtypes = {DType::kBFloat16, DType::kFloat16}});
const ExampleRegistration kWeightAverageRounded({.op = "weight_average",
                                                 .label = "bf16 alone",
                                                 .inputs = {Float32(kLarge), {kLarge}, Count()},
                                                 .attributes = Decay(0.9, false),
                                                 .dtypes = {DType::kBFloat16}});
const ExampleRegistration kExchangeAverage({.op = "exchange_average",
                                            .label = "",
                                            .inputs = {{kLarge}, {kLarge}},
                                            .dtypes = FullPrecision()});
const ExampleRegistration kExchangeAverageSplit(
    {.op = "exchange_average",
     .label = "bf16 with remainder",
     .inputs = {{kLarge}, Float32(kLarge), Remainder(kLarge)},
     .dtypes = {DType::kBFloat16}});
const ExampleRegistration kExchangeAverageMaster(
    {.op = "exchange_average",
     .label = "float32 master",
     .inputs = {{kLarge}, Float32(kLarge), Float32(kLarge)},
     .dtypes = {DType::kBFloat16, DType::kFloat16}});
const ExampleRegistration kExchangeAverageRounded({.op = "exchange_average",
                                                   .label = "bf16 alone",
                                                   .inputs = {{kLarge}, Float32(kLarge)},
                                                   .dtypes = {DType::kBFloat16}});

const ExampleRegistration kAdamW(
    {.op = "adamw",
     .label = "clipped",
     .inputs =
         {{kLarge}, {kLarge}, {kLarge}, {kLarge, Fill::kPositive}, Scalar(), Count(), Scalar()},
     .attributes = AdamW(0.1),
     .dtypes = FullPrecision()});
const ExampleRegistration kAdamWOfALayer(
    {.op = "adamw",
     .label = "a factor of the learning rate",
     .inputs = {{kSmall}, {kSmall}, {kSmall}, {kSmall, Fill::kPositive}, Scalar(), Count()},
     .attributes = WithLrFactor(AdamW(0.1)),
     .dtypes = FullPrecision()});
const ExampleRegistration kSgdLowGradient(
    {.op = "sgd",
     .label = "bf16 gradient",
     .inputs = {{kLarge}, BFloat16(kLarge), {kLarge}, Scalar()},
     .attributes = Sgd(0.9, true, 0.1),
     .dtypes = {DType::kFloat32}});
const ExampleRegistration kSgdOfALayer({.op = "sgd",
                                        .label = "a factor of the learning rate",
                                        .inputs = {{kSmall}, {kSmall}, {kSmall}, Scalar()},
                                        .attributes = WithLrFactor(Sgd(0.9, true, 0.1)),
                                        .dtypes = FullPrecision()});
const ExampleRegistration kAdamWPlain(
    {.op = "adamw",
     .label = "not clipped",
     .inputs =
         {{kSmall}, {kSmall}, {kSmall}, {kSmall, Fill::kPositive}, Scalar(), Count(), Absent()},
     .attributes = AdamW(0),
     .dtypes = FullPrecision()});
const ExampleRegistration kAdamWSplit({.op = "adamw",
                                       .label = "bf16 with remainder",
                                       .inputs = {{kLarge},
                                                  Float32(kLarge),
                                                  Float32(kLarge),
                                                  Float32(kLarge, Fill::kPositive),
                                                  Scalar(),
                                                  Count(),
                                                  Scalar(),
                                                  Apply(),
                                                  Remainder(kLarge)},
                                       .attributes = AdamW(0.1),
                                       .dtypes = {DType::kBFloat16}});
const ExampleRegistration kAdamWLowGradient({.op = "adamw",
                                             .label = "bf16 with remainder, bf16 gradient",
                                             .inputs = {{kLarge},
                                                        BFloat16(kLarge),
                                                        Float32(kLarge),
                                                        Float32(kLarge, Fill::kPositive),
                                                        Scalar(),
                                                        Count(),
                                                        Scalar(),
                                                        Apply(),
                                                        Remainder(kLarge)},
                                             .attributes = AdamW(0.1),
                                             .dtypes = {DType::kBFloat16}});
const ExampleRegistration kAdamWMaster({.op = "adamw",
                                        .label = "float32 master",
                                        .inputs = {{kLarge},
                                                   Float32(kLarge),
                                                   Float32(kLarge),
                                                   Float32(kLarge, Fill::kPositive),
                                                   Scalar(),
                                                   Count(),
                                                   Scalar(),
                                                   Apply(),
                                                   Float32(kLarge)},
                                        .attributes = AdamW(0.1),
                                        .dtypes = {DType::kBFloat16, DType::kFloat16}});
const ExampleRegistration kAdamWStochastic({.op = "adamw",
                                            .label = "bf16 weight and moments",
                                            .inputs = {{kLarge},
                                                       Float32(kLarge),
                                                       BFloat16(kLarge),
                                                       BFloat16(kLarge, Fill::kPositive),
                                                       Scalar(),
                                                       Count(),
                                                       Absent(),
                                                       Absent(),
                                                       Absent(),
                                                       Absent(),
                                                       Absent(),
                                                       Rng()},
                                            .attributes = WithKey(AdamW(0.1)),
                                            .dtypes = {DType::kBFloat16}});
const ExampleRegistration kAdamWBFloat16Moments({.op = "adamw",
                                                 .label = "float32 weight, bf16 moments",
                                                 .inputs = {{kSmall},
                                                            {kSmall},
                                                            BFloat16(kSmall),
                                                            BFloat16(kSmall, Fill::kPositive),
                                                            Scalar(),
                                                            Count(),
                                                            Scalar(),
                                                            Apply(),
                                                            Absent(),
                                                            Absent(),
                                                            Absent(),
                                                            Rng()},
                                                 .attributes = WithKey(AdamW(0.1)),
                                                 .dtypes = {DType::kFloat32}});
const ExampleRegistration kAdamWCodes({.op = "adamw",
                                       .label = "float32 weight, 8-bit moments",
                                       .inputs = {{kLarge},
                                                  {kLarge},
                                                  Codes(kLarge),
                                                  Codes(kLarge),
                                                  Scalar(),
                                                  Count(),
                                                  Absent(),
                                                  Absent(),
                                                  Absent(),
                                                  Float32(kLargeScales, Fill::kPositive),
                                                  Float32(kLargeScales, Fill::kPositive)},
                                       .attributes = AdamW(0.1),
                                       .dtypes = {DType::kFloat32}});
const ExampleRegistration kAdamWCodesSplit({.op = "adamw",
                                            .label = "bf16 with remainder, 8-bit moments",
                                            .inputs = {{kSmall},
                                                       Float32(kSmall),
                                                       Codes(kSmall),
                                                       Codes(kSmall),
                                                       Scalar(),
                                                       Count(),
                                                       Scalar(),
                                                       Apply(),
                                                       Remainder(kSmall),
                                                       Float32(kSmallScales, Fill::kPositive),
                                                       Float32(kSmallScales, Fill::kPositive)},
                                            .attributes = AdamW(0.1),
                                            .dtypes = {DType::kBFloat16}});

const ExampleRegistration kSgd({.op = "sgd",
                                .label = "nesterov momentum, clipped",
                                .inputs = {{kLarge}, {kLarge}, {kLarge}, Scalar(), Scalar()},
                                .attributes = Sgd(0.9, true, 0.1),
                                .dtypes = FullPrecision()});
const ExampleRegistration kSgdPlain({.op = "sgd",
                                     .label = "no momentum",
                                     .inputs = {{{13}}, {{13}}, Absent(), Scalar(), Absent()},
                                     .attributes = Sgd(0, false, 0),
                                     .dtypes = FullPrecision()});
const ExampleRegistration kSgdSplit({.op = "sgd",
                                     .label = "bf16 with remainder, bf16 momentum",
                                     .inputs = {{kLarge},
                                                Float32(kLarge),
                                                BFloat16(kLarge),
                                                Scalar(),
                                                Scalar(),
                                                Apply(),
                                                Remainder(kLarge),
                                                Absent(),
                                                Rng()},
                                     .attributes = WithKey(Sgd(0.9, false, 0.1)),
                                     .dtypes = {DType::kBFloat16}});
const ExampleRegistration kSgdMasterCodes({.op = "sgd",
                                           .label = "float32 master, 8-bit momentum",
                                           .inputs = {{kLarge},
                                                      Float32(kLarge),
                                                      Codes(kLarge),
                                                      Scalar(),
                                                      Absent(),
                                                      Absent(),
                                                      Float32(kLarge),
                                                      Float32(kLargeScales, Fill::kPositive)},
                                           .attributes = Sgd(0.9, true, 0.1),
                                           .dtypes = {DType::kBFloat16, DType::kFloat16}});
const ExampleRegistration kSgdStochastic({.op = "sgd",
                                          .label = "bf16 weight, no momentum",
                                          .inputs = {{kSmall},
                                                     Float32(kSmall),
                                                     Absent(),
                                                     Scalar(),
                                                     Absent(),
                                                     Absent(),
                                                     Absent(),
                                                     Absent(),
                                                     Rng()},
                                          .attributes = WithKey(Sgd(0, false, 0.1)),
                                          .dtypes = {DType::kBFloat16}});

}  // namespace
}  // namespace plimsoll::ops
