// An addition and the norm of its result as one op: the residual stream is read and written once.
// Made from `add` and `layer_norm` or `rms_norm` by FuseAddNorm (ops/norms/add_norm_fusion.h), with
// the same bits.
//
//   add_layer_norm: a, b [...,D], weight [D], bias [D] or absent → sum = a + b, y [...,D], and the
//     mean and rstd of each row of the sum.
//   add_rms_norm: the same without bias and mean.
//
// With an input rng behind these, b is dropped before it is added (ops/norms/norm_dropout.h).
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

struct SumAndNorm {
  graph::Value sum;
  graph::Value y;
};

SumAndNorm AddLayerNorm(graph::Builder& g, graph::Value a, graph::Value b, graph::Value weight,
                        graph::Value bias, double eps, std::string_view name = "");
SumAndNorm AddRmsNorm(graph::Builder& g, graph::Value a, graph::Value b, graph::Value weight,
                      double eps, std::string_view name = "");

}  // namespace plimsoll::ops
