// The scratch memory of qk_norm's backward kernel on a GPU: partial sums of the gradients of the
// weights, [partials][sums][hd] in f32.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll::ops {

// The number of thread blocks that share the query heads of all tokens, and the number that share
// the key heads; each has its own partial sums. It is the same on all GPUs, so that the sums are
// the same.
inline int64_t QkNormPartials(int64_t query_heads) {
  return std::clamp<int64_t>((query_heads + 63) / 64, 1, 528);
}

}  // namespace plimsoll::ops
