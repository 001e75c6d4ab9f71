#include "ops/linear/transpose_codes.h"

#include <vector>

#include "graph/op.h"
#include "ops/definition.h"
#include "ops/linear/quantize.h"

namespace plimsoll::ops {
namespace {

std::vector<graph::TensorType> Infer(const graph::OpCall& call) {
  const graph::TensorType& codes = call.input(0);
  graph::Check(graph::IsFloat8(codes.dtype), call, "needs 8-bit codes");
  graph::Check(codes.shape.rank() >= 1, call, "needs codes[...,K]");
  return {{codes.dtype, {codes.shape.dim(-1), TransposedRow(codes.shape.rows())}}};
}

const graph::OpRegistration kTransposeCodes({
    .name = "transpose_codes",
    .inputs = {{"codes"}},
    .outputs = {{"transposed"}},
    .infer = &Infer,
    .gradient = {},
    .cost = {},
    .cheap_to_recompute = true,
});

}  // namespace
}  // namespace plimsoll::ops
