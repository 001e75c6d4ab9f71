#include "ops/norms/norm_dropout.h"

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

}  // namespace plimsoll::ops
