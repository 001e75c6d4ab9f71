// How dk and dv of 64 keys leave a unit of ops/cuda/attention/attention_one_pass_hopper.cu: through
// scratch memory to the next unit, which waits for them, or as the result. Only in code for sm_90a.
#pragma once

#include "ops/cuda/attention/attention_one_pass.cuh"

namespace plimsoll::ops {

// Adds the sums of the units before; then leaves the sums to the next unit, or writes them.
template <typename T>
__device__ void FinishKeys(const OnePassArguments<T>& a, const OnePassUnit& u, int block, int half,
                           float (&dk)[32], float (&dv)[32], Promise& promise) {
  const int thread = threadIdx.x % kWarpgroup;
  const int64_t place = (int64_t{u.kv} * a.shared_blocks + block) * 2 + half;
  int* const added = a.counters + 1 + place;
  float4* const sums = reinterpret_cast<float4*>(a.sums) + place * 16 * kWarpgroup + thread;
  promise.Keep();
  if (u.order > 0) {
    while (LoadAcquire(added) != u.order) __nanosleep(32);
    __syncwarp();
    AddTileSums(sums, dk);
    AddTileSums(sums + 8 * kWarpgroup, dv);
  }
  if (u.order + 1 < u.Writers(block)) {
    LeaveTileSums(dk, sums);
    LeaveTileSums(dv, sums + 8 * kWarpgroup);
    SyncWarpgroup(1 + half);
    promise.added = added;
    promise.count = u.order + 1;
    return;
  }
  const int first_key = block * 128 + half * 64, count = a.length - first_key;
  const int head = a.heads + u.g;
  StoreRows<T>(dk, a.a.scale * a.a.dropout.keep_scale, a.a.dqkv + a.a.Packed(u.b, first_key, head),
               a.a.Row(), count, a.width);
  StoreRows<T>(dv, a.a.dropout.keep_scale, a.a.dqkv + a.a.Packed(u.b, first_key, head + a.kv_heads),
               a.a.Row(), count, a.width);
}

}  // namespace plimsoll::ops
