#include "base/dropout_draws.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace plimsoll {

DropRule::DropRule(double p) {
  if (!(p >= 0 && p < 1)) throw InternalError("dropout probability outside [0, 1)");
  constexpr double kDraws = 65536;
  threshold = static_cast<uint32_t>(std::min(std::nearbyint(p * kDraws), kDraws - 1));
  keep_scale = kDraws / (kDraws - threshold);
}

}  // namespace plimsoll
