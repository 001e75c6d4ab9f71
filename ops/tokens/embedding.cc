#include "ops/tokens/embedding.h"

#include "graph/gradient.h"
#include "ops/collectives/vocabulary_shard.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/tokens/embedding_dw_scratch.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::GradientContext;
using graph::OpCall;
using graph::OpRegistration;
using graph::Precision;
using graph::Shape;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

std::vector<TensorType> InferEmbedding(const OpCall& call) {
  SplitsVocabulary(call.attributes);
  const TensorType& tokens = call.input(0);
  const TensorType& weight = call.input(1);
  Check(tokens.dtype == DType::kInt32 && tokens.shape.rank() == 2, call, "tokens must be i32[B,T]");
  Check(graph::IsFloat(weight.dtype) && weight.shape.rank() == 2, call, "weight must be [V,D]");
  if (call.has_input(2)) {
    const TensorType& position = call.input(2);
    Check(position.dtype == weight.dtype && position.shape.rank() == 2 &&
              position.shape.dim(1) == weight.shape.dim(1) &&
              (call.has_input(4) || position.shape.dim(0) >= tokens.shape.dim(1)),
          call, "position must be [P,D] with P >= T");
  }
  CheckAbsentOr(call, 3, {DType::kInt32, {1}});
  CheckAbsentOr(call, 4, tokens);
  Check(!call.has_input(4) || (call.has_input(2) && !call.has_input(3)), call,
        "positions need the table position, and no first");
  return {{weight.dtype, {tokens.shape.dim(0), tokens.shape.dim(1), weight.shape.dim(1)}}};
}

void EmbeddingGradient(GradientContext& ctx) {
  const Value dy = ctx.output_gradient(0);
  graph::Builder& g = ctx.builder();
  if (ctx.wants(1)) {
    ctx.SetGradient(1, EmbeddingDw(g, ctx.input(0), dy, g.shape(ctx.input(1)).dim(0),
                                   ctx.TakePartial(1), Select(ctx.attributes(), {"axis"})));
  }
  if (ctx.wants(2) && ctx.input(4) != graph::kNoTensor) {
    ctx.SetGradient(
        2, EmbeddingDw(g, ctx.input(4), dy, g.shape(ctx.input(2)).dim(0), ctx.TakePartial(2)));
  } else if (ctx.wants(2)) {
    ctx.SetGradient(
        2, PositionDw(g, dy, g.shape(ctx.input(2)).dim(0), ctx.TakePartial(2), ctx.input(3)));
  }
}

// The cost counts only the rows that the tokens select, not the complete table.
graph::Cost EmbeddingCost(const OpCall& call) {
  const double y = static_cast<double>(call.output(0).bytes());
  const bool position = call.has_input(2);
  const double added = position ? static_cast<double>(call.output(0).shape.elements()) : 0;
  return {added, (position ? 3 : 2) * y + static_cast<double>(call.input(0).bytes())};
}

std::vector<TensorType> InferEmbeddingDw(const OpCall& call) {
  SplitsVocabulary(call.attributes);
  const TensorType& tokens = call.input(0);
  const TensorType& dy = call.input(1);
  Check(tokens.dtype == DType::kInt32 && tokens.shape.rank() == 2, call, "tokens must be i32[B,T]");
  Check(graph::IsFloat(dy.dtype) && dy.shape.rank() == 3 && dy.shape.DropLast() == tokens.shape,
        call, "dy must be [B,T,D]");
  const DType dtype = MakesLowGradient(call, 3, 1) ? dy.dtype : graph::ComputeType(dy.dtype);
  const TensorType dweight{dtype, {call.attributes.GetInt("rows"), dy.shape.dim(2)}};
  CheckAbsentOr(call, 2, dweight);
  return {dweight};
}

// With acc only the rows of the tokens are moved; without it the complete gradient is cleared, too.
graph::Cost EmbeddingDwCost(const OpCall& call) {
  const TensorType& dy = call.input(1);
  const double cleared = call.has_input(2) ? 0 : static_cast<double>(call.output(0).bytes());
  const double elements = static_cast<double>(dy.shape.elements());
  const double summed = elements * static_cast<double>(graph::ByteSize(call.output(0).dtype));
  return {elements, static_cast<double>(dy.bytes()) + 2 * summed +
                        static_cast<double>(call.input(0).bytes()) + cleared};
}

std::vector<TensorType> InferPositionDw(const OpCall& call) {
  const TensorType& dy = call.input(0);
  const int64_t rows = call.attributes.GetInt("rows");
  Check(graph::IsFloat(dy.dtype) && dy.shape.rank() == 3 && dy.shape.dim(1) <= rows, call,
        "dy must be [B,T,D] with T <= rows");
  const TensorType dposition{graph::ComputeType(dy.dtype), {rows, dy.shape.dim(2)}};
  CheckAbsentOr(call, 1, dposition);
  CheckAbsentOr(call, 2, {DType::kInt32, {1}});
  return {dposition};
}

const OpRegistration kEmbedding({
    .name = "embedding",
    .inputs = {{"tokens"}, {"weight"}, {"position", true}, {"first", true}, {"positions", true}},
    .outputs = {{"y"}},
    .infer = &InferEmbedding,
    .gradient = &EmbeddingGradient,
    .cost = &EmbeddingCost,
    .precision = {Precision::kLow, "a lookup; token and position rows are added in float32"},
    .sharding = {.split_weight = ShardingRule::kLookup, .weight = 1},
    .continuation = {.position = 3, .position_table = 2},
});

const OpRegistration kEmbeddingDw({
    .name = "embedding_dw",
    .inputs = {{"tokens"}, {"dy"}, {"acc", true}, {"rng", true}},
    .outputs = {{"dweight"}},
    .infer = &InferEmbeddingDw,
    .gradient = {},
    .cost = &EmbeddingDwCost,
    .in_place = {{2, 0}},
    .random = true,
    .low_gradients = {{2, 0}},
});
const CudaWorkspaceRegistration kEmbeddingDwWorkspace("embedding_dw", &EmbeddingDwScratchBytes);

const OpRegistration kPositionDw({
    .name = "position_dw",
    .inputs = {{"dy"}, {"acc", true}, {"first", true}},
    .outputs = {{"dposition"}},
    .infer = &InferPositionDw,
    .gradient = {},
    .cost = FlopsPerElement(1),
    .in_place = {{1, 0}},
});

}  // namespace

Value Embedding(graph::Builder& g, Value tokens, Value weight, Value position, Value positions,
                std::string_view name) {
  std::vector<Value> inputs = {tokens, weight, position};
  if (positions != graph::kNoTensor) {
    inputs.insert(inputs.end(), {graph::kNoTensor, positions});
  }
  return g.Emit1("embedding", std::move(inputs), {}, name);
}

Value EmbeddingDw(graph::Builder& g, Value tokens, Value dy, int64_t rows, Value acc,
                  graph::Attributes axis, std::string_view name) {
  axis.Set("rows", rows);
  return g.Emit1("embedding_dw", {tokens, dy, acc}, std::move(axis), name);
}

Value PositionDw(graph::Builder& g, Value dy, int64_t rows, Value acc, Value first,
                 std::string_view name) {
  std::vector<Value> inputs = {dy, acc};
  if (first != graph::kNoTensor) inputs.push_back(first);
  return g.Emit1("position_dw", std::move(inputs), {{"rows", rows}}, name);
}

}  // namespace plimsoll::ops
