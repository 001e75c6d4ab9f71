#include "ops/norms/instance_norm.h"

#include "base/error.h"

namespace plimsoll::ops {

graph::Value InstanceNorm(graph::Builder& g, graph::Value x, graph::Value weight, graph::Value bias,
                          double eps, NormActivation activation, std::string_view name) {
  const graph::Shape& shape = g.shape(x);
  if (shape.rows() <= shape.dim(0)) {
    throw InternalError("an instance norm of single pixels: they have no variance");
  }
  const BatchStatistics of_samples = BatchNormStatistics(g, x, shape.dim(0));
  return BatchNorm(g, x, of_samples, weight, bias, eps, activation, name);
}

}  // namespace plimsoll::ops
