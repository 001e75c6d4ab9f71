#include "ops/norms/norm_dropout.h"

#include <utility>

#include "ops/definition.h"

namespace plimsoll::ops {

bool HasDropout(const graph::OpCall& call, size_t rng) {
  if (!call.has_input(rng)) return false;
  CheckRng(call, rng);
  const double p = call.attributes.GetReal("p");
  graph::Check(p >= 0 && p < 1, call, "p must be in [0, 1)");
  call.attributes.GetInt("key");
  return true;
}

std::vector<graph::TensorType> WithDropped(const graph::OpCall& call, size_t rng,
                                           std::vector<graph::TensorType> types) {
  if (HasDropout(call, rng) || call.attributes.Has("largest")) types.push_back(call.input(0));
  return WithLargest(call, std::move(types));
}

}  // namespace plimsoll::ops
