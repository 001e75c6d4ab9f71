// The masks of ranges (attention_ranges.cuh) for 64 × 64 scores, or weights, in the registers of a
// warpgroup as Hopper's tensor cores leave them. Few tiles have a mask: the first keys are read
// only for those.
#pragma once

#include "ops/cuda/attention/attention_ranges.cuh"
#include "ops/cuda/wgmma.cuh"

namespace plimsoll::ops {

// Sets scores of keys before the query's first key to `hidden`. Rows are the queries from
// first_query on, columns the keys from first_key on; queries from `length` on don't matter.
__device__ inline void HideEarlierKeys(const AttentionRanges& ranges, int64_t b, int first_query,
                                       int length, int first_key, float hidden, float (&s)[32]) {
  const ResultPlace at;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int first = ranges.LastFirst(b, first_query + at.Row(2 * r) + 1, length) - first_key;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (i / 2 % 2 == r && at.Column(i) < first) s[i] = hidden;
    }
  }
}

// Sets weights to 0 if their key is before the query's first key. Rows are the keys from first_key
// on, columns the queries from first_query on; queries from `length` on don't matter. The queries
// that see a key are a number of the first ones. Bisection finds this number, and so needs hardly
// any registers.
__device__ inline void HideFromLaterQueries(const AttentionRanges& ranges, int64_t b,
                                            int first_query, int length, int first_key,
                                            float (&p)[32]) {
  const ResultPlace at;
  int seen[2] = {0, 0};  // number of queries that see the key
#pragma unroll 1
  for (int step = 64; step > 0; step /= 2) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int more = seen[r] + step;
      if (more > 64) continue;
      const int first = ranges.LastFirst(b, first_query + more, length);
      if (first <= first_key + at.Row(2 * r)) seen[r] = more;
    }
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    if (at.Column(i) >= seen[i / 2 % 2]) p[i] = 0;
  }
}

}  // namespace plimsoll::ops
