// Four threads exchange registers. The quads of threads have the rows of a tensor-core result
// (ResultPlace in wgmma.cuh); a thread has two of every eight columns.
#pragma once

namespace plimsoll::ops {

// Thread q of a quad gets, in v[i], what thread i had in v[q]. T: float or uint32_t.
template <typename T>
__device__ void TransposeQuad(T (&v)[4]) {
  const int quarter = threadIdx.x % 4;
  const bool odd = quarter & 1, upper = quarter & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const T other = __shfl_xor_sync(~0u, odd ? v[i] : v[i + 1], 1);
    v[i] = odd ? other : v[i];
    v[i + 1] = odd ? v[i + 1] : other;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const T other = __shfl_xor_sync(~0u, upper ? v[i] : v[i + 2], 2);
    v[i] = upper ? other : v[i];
    v[i + 2] = upper ? v[i + 2] : other;
  }
}

}  // namespace plimsoll::ops
