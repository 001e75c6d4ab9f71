#include "ops/linear/low_rank.h"

#include <charconv>

#include "base/error.h"
#include "graph/gradient.h"
#include "graph/op.h"
#include "ops/cuda_workspace.h"
#include "ops/definition.h"
#include "ops/linear/cuda_gemm_workspace.h"

namespace plimsoll::ops {

using graph::Attributes;
using graph::Check;
using graph::Cost;
using graph::OpCall;
using graph::Precision;
using graph::Shape;
using graph::ShardingRule;
using graph::TensorType;
using graph::Value;

Value AddLowRank(graph::Builder& g, Value y, Value u, Value b,
                 const std::vector<ColumnRange>& columns, double scale, std::string_view name) {
  return g.Emit1("add_low_rank", {y, u, b},
                 Attributes{{"columns", ColumnsWord(columns)}, {"scale", scale}}, name);
}

std::string ColumnsWord(const std::vector<ColumnRange>& columns) {
  std::string word;
  for (const ColumnRange& range : columns) {
    if (!word.empty()) word += ' ';
    word += std::to_string(range.first) + "+" + std::to_string(range.columns);
  }
  return word;
}

void ForColumnRanges(const Attributes& attributes,
                     FunctionRef<void(int64_t, int64_t, ColumnRange)> visit) {
  const std::string& word = attributes.GetWord("columns");
  const char* at = word.data();
  const char* const end = at + word.size();
  int64_t row = 0;
  for (int64_t i = 0; at < end; ++i) {
    ColumnRange range{};
    const auto first = std::from_chars(at, end, range.first);
    const bool plus = first.ec == std::errc() && first.ptr < end && *first.ptr == '+';
    const auto count = std::from_chars(plus ? first.ptr + 1 : end, end, range.columns);
    at = count.ptr;
    if (count.ec != std::errc() || (at < end && *at++ != ' ')) {
      throw InternalError("attribute columns: '" + word + "' is no list of ranges");
    }
    visit(i, row, range);
    row += range.columns;
  }
}

std::vector<ColumnRange> ColumnRanges(const Attributes& attributes) {
  std::vector<ColumnRange> ranges;
  ForColumnRanges(attributes,
                  [&](int64_t, int64_t, ColumnRange range) { ranges.push_back(range); });
  return ranges;
}

namespace {

// Checks y or dy [...,N], u or du [...,m·r], b or db [n,r].
void CheckShapes(const OpCall& call, const Shape& y, const Shape& u, const Shape& b) {
  Check(y.rank() >= 1 && b.rank() == 2 && u.rank() == y.rank() && u.DropLast() == y.DropLast(),
        call, "needs y[...,N], u[...,m·r] and b[n,r] with equal rows of y and u");
  int64_t ranges = 0, rows = 0;
  bool inside = true;
  ForColumnRanges(call.attributes, [&](int64_t, int64_t, ColumnRange range) {
    inside = inside && range.first >= 0 && range.columns >= 1 &&
             range.columns <= y.dim(-1) - range.first;
    ++ranges;
    rows += range.columns;
  });
  Check(inside, call, "a range of columns is not within y's");
  Check(ranges * b.dim(1) == u.dim(-1), call, "u does not have b's width for each range");
  Check(rows == b.dim(0), call, "b does not have a row for each column of the ranges");
}

void CheckFloats(const OpCall& call, size_t inputs) {
  const graph::DType dtype = call.input(0).dtype;
  Check(graph::IsFloat(dtype), call, "needs floats");
  for (size_t i = 1; i < inputs; ++i) Check(call.input(i).dtype == dtype, call, "dtypes differ");
}

std::vector<TensorType> Infer(const OpCall& call) {
  CheckFloats(call, 3);
  CheckShapes(call, call.input(0).shape, call.input(1).shape, call.input(2).shape);
  return {call.input(0)};
}

int64_t CountRanges(const Attributes& attributes) {
  int64_t count = 0;
  ForColumnRanges(attributes, [&](int64_t, int64_t, ColumnRange) { ++count; });
  return count;
}

std::vector<TensorType> InferDu(const OpCall& call) {
  CheckFloats(call, 2);
  const Shape &dy = call.input(0).shape, &b = call.input(1).shape;
  Check(dy.rank() >= 1 && b.rank() == 2, call, "needs dy[...,N] and b[n,r]");
  const Shape du = dy.WithLast(CountRanges(call.attributes) * b.dim(1));
  CheckShapes(call, dy, du, b);
  return {{call.input(0).dtype, du}};
}

std::vector<TensorType> InferDb(const OpCall& call) {
  CheckFloats(call, 2);
  const Shape &u = call.input(0).shape, &dy = call.input(1).shape;
  int64_t ranges = 0, rows = 0;
  ForColumnRanges(call.attributes, [&](int64_t, int64_t, ColumnRange range) {
    ++ranges;
    rows += range.columns;
  });
  Check(u.rank() >= 1 && ranges > 0 && u.dim(-1) % ranges == 0, call,
        "u cannot be cut into a part for each range");
  const TensorType db{graph::ComputeType(call.input(0).dtype), {rows, u.dim(-1) / ranges}};
  CheckShapes(call, dy, u, db.shape);
  CheckAbsentOr(call, 2, db);
  return {db};
}

void Gradient(graph::GradientContext& context) {
  graph::Builder& g = context.builder();
  const Value dy = context.output_gradient(0);
  const Value u = context.input(1), b = context.input(2);
  const Attributes attributes = Select(context.attributes(), {"columns", "scale", "tf32"});
  if (context.wants(2)) {
    context.SetGradient(2, g.Emit1("add_low_rank_db", {u, dy, context.TakePartial(2)}, attributes));
  }
  if (context.wants(1)) context.SetGradient(1, g.Emit1("add_low_rank_du", {dy, b}, attributes));
  if (context.wants(0)) context.SetGradient(0, dy);
}

// The cost: two FLOPs for each row and each element of b.
Cost ProductCost(const OpCall& call, double rows, const Shape& b) {
  const double flops = 2 * rows * static_cast<double>(b.elements());
  return {flops, ArgumentBytes(call), flops};
}

const graph::OpRegistration kAddLowRank({
    .name = "add_low_rank",
    .inputs = {{"y"}, {"u"}, {"b"}},
    .outputs = {{"out"}},
    .infer = &Infer,
    .gradient = &Gradient,
    .cost =
        [](const OpCall& call) {
          return ProductCost(call, call.input(0).shape.rows(), call.input(2).shape);
        },
    .in_place = {{0, 0}},
    .precision = {Precision::kLow,
                  "low operands, products summed in float32; the sum is rounded once",
                  /*tf32=*/true},
    // The op is bound by bandwidth, because the rank, the products' inner dimension, is small.
    .sharding = {.follows = ShardingRule::kRows,
                 .inputs = 2,
                 .split_weight = ShardingRule::kLowRank,
                 .weight = 2},
});

const graph::OpRegistration kAddLowRankDu({
    .name = "add_low_rank_du",
    .inputs = {{"dy"}, {"b"}},
    .outputs = {{"du"}},
    .infer = &InferDu,
    .gradient = {},
    .cost =
        [](const OpCall& call) {
          return ProductCost(call, call.input(0).shape.rows(), call.input(1).shape);
        },
});

const graph::OpRegistration kAddLowRankDb({
    .name = "add_low_rank_db",
    .inputs = {{"u"}, {"dy"}, {"acc", true}},
    .outputs = {{"db"}},
    .infer = &InferDb,
    .gradient = {},
    .cost =
        [](const OpCall& call) {
          return ProductCost(call, call.input(0).shape.rows(), InferDb(call)[0].shape);
        },
    .in_place = {{2, 0}},
});

int64_t Workspace(const OpCall& /*call*/) { return kGemmWorkspaceBytes; }

const CudaWorkspaceRegistration kWorkspace("add_low_rank", &Workspace);
const CudaWorkspaceRegistration kDuWorkspace("add_low_rank_du", &Workspace);
const CudaWorkspaceRegistration kDbWorkspace("add_low_rank_db", &Workspace);

}  // namespace
}  // namespace plimsoll::ops
