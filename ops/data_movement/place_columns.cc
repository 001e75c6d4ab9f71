// place_columns   y = a matrix with x as this rank's columns, zero elsewhere: [...,n] of rank r of
// the node's axis goes to columns r·n … (r+1)·n of [...,R·n]. The sum of y over ranks is the full
// matrix. Not differentiable.
#include "graph/op.h"
#include "ops/collectives/axis.h"

namespace plimsoll::ops {
namespace {

std::vector<graph::TensorType> Infer(const graph::OpCall& call) {
  AxisOf(call.attributes);
  const graph::TensorType& x = call.input(0);
  const int64_t ranks = call.attributes.GetInt("ranks");
  graph::Check(x.shape.rank() >= 1 && ranks >= 1, call, "needs x[...,n] and some ranks");
  return {{x.dtype, x.shape.WithLast(x.shape.dim(-1) * ranks)}};
}

const graph::OpRegistration kPlaceColumns({
    .name = "place_columns",
    .inputs = {{"x"}},
    .outputs = {{"y"}},
    .infer = &Infer,
    .gradient = {},
    .cost = {},
    .precision = {graph::Precision::kAsInput, "moves bytes"},
});

}  // namespace
}  // namespace plimsoll::ops
