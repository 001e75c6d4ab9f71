#include "ops/loss/linear_cross_entropy.h"

#include <algorithm>
#include <string>
#include <utility>

#include "graph/op.h"
#include "ops/collectives/vocabulary_shard.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/linear/cuda_gemm_workspace.h"
#include "ops/loss/linear_loss_call.h"
#include "ops/reductions/cuda_column_sums.h"

namespace plimsoll::ops {

using graph::Check;
using graph::CostClass;
using graph::kNoTensor;
using graph::OpCall;
using graph::Precision;
using graph::Shape;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

Value LinearCrossEntropy(graph::Builder& g, Value x, Value weight, Value targets, Value scale,
                         Value bias, std::string_view name, double softcap) {
  std::vector<Value> inputs = {x, weight, targets, scale};
  if (bias != kNoTensor) inputs.push_back(bias);
  graph::Attributes attributes;
  if (softcap != 0) attributes.Set("softcap", softcap);
  return g.Emit1("linear_cross_entropy", inputs, std::move(attributes), name);
}

double LossSoftcap(const graph::Attributes& attributes) {
  return attributes.Has("softcap") ? attributes.GetReal("softcap") : 0;
}

int64_t LossChunkRows(int64_t rows, int64_t vocabulary, int64_t element_size) {
  constexpr int64_t kBytes = int64_t{100} << 20;
  constexpr int64_t kLeast = 128;
  constexpr int64_t kStep = 16;
  const int64_t fitting = kBytes / std::max<int64_t>(1, vocabulary * element_size) / kStep * kStep;
  const int64_t most = std::max(kLeast, fitting);
  // Chunks have about equal size, because every chunk reads the complete weight and its gradient.
  const int64_t chunks = std::max<int64_t>(1, (rows + most - 1) / most);
  const int64_t even = (rows + chunks - 1) / chunks;
  return std::min(rows, (even + kStep - 1) / kStep * kStep);
}

bool TakesLossExponentials(int64_t vocabulary, int64_t width, graph::DType stored, bool bias,
                           ComputeCapability gpu) {
  // The time that stored exponentials save does not grow with the width, but their cost does. On an
  // H200, they were faster in bf16 at widths of 768 and 896, but not at 1600. Without stored
  // exponentials, the most expensive rows are those that several multiprocessors have to share.
  constexpr int64_t kWidth = 1024, kVocabulary = 57344;
  const bool low = stored == graph::DType::kBFloat16 || stored == graph::DType::kFloat16;
  return gpu.is_hopper() && low && !bias && width % 8 == 0 &&
         (width <= kWidth || vocabulary > kVocabulary);
}

CudaLossLayout LayOutCudaLoss(int64_t rows, int64_t vocabulary, int64_t width, graph::DType stored,
                              LossOptions options) {
  // Chosen sizes of chunks. In chunks of few rows the products leave a GPU partly idle, and dweight
  // is read and written once per chunk. On an H200 the products of GPT-2 124M (32768 rows in bf16)
  // took 12.0, 11.0, 9.7 and 10.8 ms in chunks of 1024, 2048, 4096 and 8192 rows; a chunk of 4096
  // has 393 MiB of logits. If the weight of a wide model takes more bytes than this limit, a chunk
  // may take as many as the weight, but at most a third of all logits: with few rows, activations
  // are small, too. A low gradient is rounded by every chunk, so its chunks are twice as large:
  // Qwen2.5 1.5B's loss of 32768 rows, in a step of two micro-steps, took 157 ms in chunks of 1536
  // rows and 145 ms in chunks of 3072.
  constexpr int64_t kBytes = int64_t{400} << 20;
  constexpr int64_t kChunks = 3;
  constexpr int64_t kLeast = 1024;
  constexpr int64_t kStep = 256;  // rows of the products' largest tiles
  constexpr int64_t kLine = 128;
  const auto align = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
  CudaLossLayout layout{};
  const int64_t size = graph::ByteSize(stored);
  layout.stride = align(vocabulary, kLine / size);
  const int64_t row_bytes = std::max(kLine, layout.stride * size);
  const int64_t part = align((rows + kChunks - 1) / kChunks, kStep);
  const int64_t of_weight = options.low_gradient ? 2 * width : width;
  const int64_t wide = std::min(of_weight, part) * row_bytes;
  const int64_t most = std::max(kLeast, std::max(kBytes, wide) / row_bytes / kStep * kStep);
  const int64_t chunks = std::max<int64_t>(1, (rows + most - 1) / most);
  layout.chunk = std::min(rows, align((rows + chunks - 1) / chunks, kStep));
  layout.bytes = layout.chunk * layout.stride * size;
  const auto take = [&](int64_t bytes) {
    constexpr int64_t kAlignment = 256;
    const int64_t at = align(layout.bytes, kAlignment);
    layout.bytes = at + bytes;
    return at;
  };
  constexpr int64_t kFloat = sizeof(float);
  layout.losses_at = take(rows * kFloat);
  if (!options.softcap &&
      TakesLossExponentials(vocabulary, width, stored, options.bias, options.gpu)) {
    const int64_t tiles = (vocabulary + kLossTileColumns - 1) / kLossTileColumns;
    layout.references_at = take(layout.chunk * kFloat);
    layout.sums_at = take(tiles * layout.chunk * kFloat);
    layout.factors_at = take(layout.chunk * kFloat);
    layout.scaled_at = take(layout.chunk * width * size);
    layout.product_at = take(layout.chunk * width * kFloat);
    if (stored == graph::DType::kFloat16 && options.dx) {
      layout.weight_at = take(vocabulary * width * size);
    }
  }
  if (options.split) layout.parts_at = take(kLossPartFloats * layout.chunk * kFloat);
  if (options.bias) {
    layout.bias_sums_at = take(layout.stride * kFloat);
    layout.column_sums_at = take(ColumnSumsBytes(layout.chunk, layout.stride));
  }
  if (options.low_gradient) layout.wide_at = take(LowGradientBytes(vocabulary, width));
  layout.gemm_at = take(kGemmWorkspaceBytes);
  return layout;
}

namespace {

using linear_loss::BiasGradient;
using linear_loss::CheckLinearLoss;
using linear_loss::CudaLossWorkspace;
using linear_loss::kAbsent;
using linear_loss::LossCost;
using linear_loss::Rows;
using linear_loss::WeightGradient;

// Checks inputs 0 to 3, which the three ops have in common, and the bias at input `bias`.
void CheckOperands(const OpCall& call, size_t bias) {
  CheckLinearLoss(call, bias);
  CheckFloat32Scalar(call, 3);
}

// The type of loss and dloss.
TensorType Scalar(const OpCall& call) { return {graph::ComputeType(call.input(0).dtype), Shape{}}; }

const graph::OpRegistration kForward({
    .name = "linear_cross_entropy",
    .inputs = {{"x"}, {"weight"}, {"targets"}, {"scale"}, {"bias", true}},
    .outputs = {{"loss"}, {"lse", true}},
    .infer =
        [](const OpCall& call) {
          CheckOperands(call, 4);
          return std::vector<TensorType>{Scalar(call), Rows(call)};
        },
    .gradient =
        [](graph::GradientContext& context) {
          linear_loss::LinearLossGradient<4>("linear_cross_entropy", context);
        },
    .cost = [](const OpCall& call) { return LossCost(call, 1, 0, 1); },
    .precision =
        {Precision::kLow,
         "low operands; softmax and the loss itself, on a CPU also the logits, stay in float32",
         /*tf32=*/true},
    .cost_class = CostClass::kProducts,
    .sharding = {.split_weight = ShardingRule::kReduction, .weight = 1},
});

const graph::OpRegistration kBackward({
    .name = "linear_cross_entropy_backward",
    .inputs = {{"x"},
               {"weight"},
               {"targets"},
               {"scale"},
               {"lse"},
               {"dloss"},
               {"acc_weight", true},
               {"bias", true},
               {"acc_bias", true},
               {"rng", true}},
    .outputs = {{"dx", true}, {"dweight", true}, {"dbias", true}},
    .infer =
        [](const OpCall& call) {
          CheckOperands(call, 7);
          Check(call.input(4) == Rows(call), call, "lse is not [rows]");
          Check(call.input(5) == Scalar(call), call, "dloss is not a scalar of x's compute type");
          CheckAbsentOr(call, 6, WeightGradient(call, 9));
          CheckAbsentOr(call, 8, BiasGradient(call, 7));
          return std::vector<TensorType>{call.input(0), WeightGradient(call, 9),
                                         BiasGradient(call, 7)};
        },
    .gradient = {},
    .cost =
        [](const OpCall& call) {
          return LossCost(call, 1 + call.has_output(0) + call.has_output(1), 1, 1);
        },
    .in_place = {{6, 1}, {8, 2}},
    .random = true,
    .cost_class = CostClass::kProducts,
    .low_gradients = {{6, 1}},
});

const graph::OpRegistration kTrain({
    .name = "linear_cross_entropy_train",
    .inputs = {{"x"},
               {"weight"},
               {"targets"},
               {"scale"},
               {"dloss"},
               {"acc_weight", true},
               {"bias", true},
               {"acc_bias", true},
               {"rng", true}},
    .outputs = {{"loss"}, {"dx", true}, {"dweight", true}, {"dbias", true}},
    .infer =
        [](const OpCall& call) {
          CheckOperands(call, 6);
          Check(call.input(4) == Scalar(call), call, "dloss is not a scalar of x's compute type");
          CheckAbsentOr(call, 5, WeightGradient(call, 8));
          CheckAbsentOr(call, 7, BiasGradient(call, 6));
          return std::vector<TensorType>{Scalar(call), call.input(0), WeightGradient(call, 8),
                                         BiasGradient(call, 6)};
        },
    .gradient = {},
    .cost =
        [](const OpCall& call) {
          return LossCost(call, 1 + call.has_output(1) + call.has_output(2), 0, 2);
        },
    .in_place = {{5, 2}, {7, 3}},
    .random = true,
    .cost_class = CostClass::kProducts,
    .low_gradients = {{5, 2}},
    .with_backward = true,
});

const CudaWorkspaceRegistration kForwardWorkspace("linear_cross_entropy",
                                                  &CudaLossWorkspace<4, kAbsent, kAbsent>);
const CudaWorkspaceRegistration kBackwardWorkspace("linear_cross_entropy_backward",
                                                   &CudaLossWorkspace<7, 0, 1>);
const CudaWorkspaceRegistration kTrainWorkspace("linear_cross_entropy_train",
                                                &CudaLossWorkspace<6, 1, 2>);

}  // namespace
}  // namespace plimsoll::ops
