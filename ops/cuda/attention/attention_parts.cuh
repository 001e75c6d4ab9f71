// Building blocks of attention's kernels whose warpgroups have different tasks
// (attention_forward_hopper.cu, attention_one_pass_hopper.cu, attention_wide_hopper.cu,
// attention_widest_hopper.cu): synchronization, products of tiles, sums and results of a tile. Only
// in code for sm_90a.
#pragma once

#include "ops/cuda/counters.cuh"
#include "ops/cuda/exp2.cuh"
#include "ops/cuda/tensor_copy.cuh"
#include "ops/cuda/transpose_quad.cuh"
#include "ops/cuda/wgmma.cuh"

namespace plimsoll::ops {

// A barrier of the 128 threads of a warpgroup; its name is 1 or more.
__device__ inline void SyncWarpgroup(int name) {
  asm volatile("bar.sync %0, 128;" ::"r"(name) : "memory");
}

// Sets the number of registers that each thread of the calling warpgroup may have.
template <int kCount>
__device__ void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ void LeaveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

__device__ inline float2 LoadSharedTwo(uint32_t from) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from));
  return v;
}
__device__ inline float4 LoadSharedFour(uint32_t from) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(from));
  return v;
}
__device__ inline void StoreSharedFour(uint32_t to, float4 v) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v.x), "f"(v.y), "f"(v.z),
               "f"(v.w)
               : "memory");
}

// LowerHalf: the lower half of the tensor cores' descriptor of a tile. OperandAt: the descriptor
// for data `further` bytes after the tile with this lower half.
__device__ inline uint32_t LowerHalf(uint32_t address) {
  return static_cast<uint32_t>(OperandDescriptor(address));
}
__device__ inline uint64_t OperandAt(uint32_t lower_half, uint32_t further) {
  uint64_t descriptor;
  constexpr uint32_t kUpperHalf = 1u << 30 | 1024 >> 4;
  asm("mov.b64 %0, {%1, %2};"
      : "=l"(descriptor)
      : "r"(lower_half + (further >> 4)), "n"(kUpperHalf));
  return descriptor;
}

// Products of tiles, as in wgmma.cuh; the caller combines them into groups.
// d = a·bᵀ over kPieces tiles side by side
template <typename T, int kPieces = 1>
__device__ void MultiplyTiles(float (&d)[32], uint32_t a, uint32_t b) {
  const uint32_t left = LowerHalf(a), right = LowerHalf(b);
#pragma unroll
  for (int k = 0; k < 4 * kPieces; ++k) {
    const uint32_t further = k / 4 * kOperandTile + k % 4 * 32;
    MultiplyShared<T>(d, OperandAt(left, further), OperandAt(right, further), k > 0);
  }
}
// d += a·b
template <typename T>
__device__ void AddWeightedTile(float (&d)[32], const uint32_t (*a)[4], uint32_t b) {
  const uint32_t right = LowerHalf(b);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    MultiplyRegisters<T>(d, a[k], OperandAt(right, k * 2048));
  }
}

// Sets rows from `count` on of kPieces adjacent tiles to zero: padding is never read as numbers.
// Every warpgroup does this itself before it uses the tiles. `name`: the name of its barrier.
template <int kPieces>
__device__ void ClearPadding(uint32_t tiles, int count, int name) {
  const int thread = threadIdx.x % kWarpgroup;
  for (int row = count + thread / 8; row < 64; row += kWarpgroup / 8) {
    for (int piece = 0; piece < kPieces; ++piece) {
      StoreSharedFour(tiles + piece * kOperandTile + PieceOffset(row, thread % 8), float4{});
    }
  }
  FenceSharedWrites();
  SyncWarpgroup(name);
}

// Like the function above, for callers that don't know whether such rows exist. All rows are
// cleared if `count` isn't positive.
template <int kPieces>
__device__ void ClearPaddingOf(uint32_t tiles, int count, int name) {
  if (count < 64) ClearPadding<kPieces>(tiles, max(0, count), name);
}

// Scales and writes a result of 64 rows, 16 bytes at a time: the four threads of a row exchange
// words.
template <typename T>
__device__ void StoreRows(const float (&from)[32], float scale, T* to, int64_t stride, int count,
                          int width) {
  const ResultPlace at;
  const int quarter = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = at.row + i / 2 * 8, group = i % 2 * 4;  // the first of four words of eight
                                                            // columns
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

// Adds the sums of a 64 × 64 tile in scratch memory, stored as the registers of one thread after
// another; those of this thread begin at `from`.
__device__ inline void AddTileSums(const float4* from, float (&d)[32]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float4 v = __ldcg(from + i * kWarpgroup);
    d[4 * i] += v.x, d[4 * i + 1] += v.y, d[4 * i + 2] += v.z, d[4 * i + 3] += v.w;
  }
}
__device__ inline void LeaveTileSums(const float (&d)[32], float4* to) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    __stcg(to + i * kWarpgroup, float4{d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]});
  }
}

// Sums that this unit has left for the next one, before notifying it. The notification comes later,
// when the sums have arrived, and so needs no waiting.
struct Promise {
  __device__ void Keep() {
    if (added == nullptr) return;
    if (threadIdx.x % kWarpgroup == 0) StoreRelease(added, count);
    added = nullptr;
  }
  int* added = nullptr;
  int count = 0;
};

}  // namespace plimsoll::ops
