// How dk and dv of 64 keys leave a unit of ops/cuda/attention_one_pass_hopper.cu: through scratch
// memory to the next unit, which waits for them, or as the result. Only in code for sm_90a.
#pragma once

#include "ops/cuda/attention_one_pass.cuh"
#include "ops/cuda/transpose_quad.cuh"

namespace plimsoll::ops {

// Writes a result of 64 rows, scaled, 16 bytes at a time: the four threads of a row exchange words.
template <typename T>
__device__ void StoreRows(const float (&from)[32], float scale, T* to, int64_t stride, int count,
                          int width) {
  const ResultPlace at;
  const int quarter = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = at.row + i / 2 * 8, group = i % 2 * 4;  // of eight columns, the first of four
    uint32_t words[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int value = (group + c) * 4 + i / 2 * 2;
      words[c] = PackTwo<T>(from[value] * scale, from[value + 1] * scale);
    }
    TransposeQuad(words);
    const int column = (group + quarter) * 8;
    if (row < count && column < width) {
      *reinterpret_cast<uint4*>(to + row * stride + column) =
          uint4{words[0], words[1], words[2], words[3]};
    }
  }
}

// Sums that this unit has left for the next one, which hasn't been notified yet: the notification
// comes later, when the sums have arrived, and so needs no waiting.
struct Promise {
  __device__ void Keep() {
    if (added == nullptr) return;
    if (threadIdx.x % kWarpgroup == 0) StoreRelease(added, count);
    added = nullptr;
  }
  int* added = nullptr;
  int count = 0;
};

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
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float4 k = __ldcg(sums + i * kWarpgroup), v = __ldcg(sums + (8 + i) * kWarpgroup);
      dk[4 * i] += k.x, dk[4 * i + 1] += k.y, dk[4 * i + 2] += k.z, dk[4 * i + 3] += k.w;
      dv[4 * i] += v.x, dv[4 * i + 1] += v.y, dv[4 * i + 2] += v.z, dv[4 * i + 3] += v.w;
    }
  }
  if (u.order + 1 < u.Writers(block)) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int at = 4 * i;
      __stcg(sums + i * kWarpgroup, float4{dk[at], dk[at + 1], dk[at + 2], dk[at + 3]});
      __stcg(sums + (8 + i) * kWarpgroup, float4{dv[at], dv[at + 1], dv[at + 2], dv[at + 3]});
    }
    SyncWarpgroup(1 + half);
    promise.added = added;
    promise.count = u.order + 1;
    return;
  }
  const int first_key = block * 128 + half * 64, count = a.length - first_key;
  const int head = a.heads + u.g;
  StoreRows<T>(dk, a.a.scale, a.a.dqkv + a.a.Packed(u.b, first_key, head), a.a.Row(), count,
               a.width);
  StoreRows<T>(dv, 1, a.a.dqkv + a.a.Packed(u.b, first_key, head + a.kv_heads), a.a.Row(), count,
               a.width);
}

}  // namespace plimsoll::ops
