// Backward kernels of layer_norm and rms_norm (kMean false, no dbias). With x̂ = (x − mean) · rstd
// and ĝ = dy · weight:
//   dx = rstd · (ĝ − Σĝ / D − x̂ · Σ(ĝ·x̂) / D) (+ acc),   dweight = Σ_rows dy · x̂,
//   dbias = Σ_rows dy.
// With a unit offset, which rms_norm may have, 1 + weight replaces the weight. With dropout, dx
// with elements dropped is one more result, which needs kDrop. With kLargest, the kernel also finds
// the largest magnitudes of its results as they are stored.
//
// One pass over the rows. One warp takes a row; if the row is longer than kNormBackwardPacks packs
// of 16 bytes a lane, a few warps share it. A warp fetches its next row into shared memory while it
// works on the current one: no warp waits for another's row. A lane's part of dweight and dbias
// stays in registers from row to row. At the end a block's warps add up theirs, in their order, and
// the block stores partial sums in the workspace; ops/cuda/column_sums.cuh adds those. Blocks, and
// so the order of every sum, depend only on the shape. Bytes: 3·N·D·s, and N·D·s more for acc, for
// y if the norm is recomputed, too (kAgain), and for the dropped dx. Largest magnitudes take no
// bytes: each warp adds its own.
#pragma once

#include <cuda_pipeline.h>

#include <algorithm>
#include <cstdint>

#include "gpu/capability.h"
#include "gpu/check.h"
#include "ops/cuda/column_sums.cuh"
#include "ops/cuda/element_dropout.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/largest.cuh"
#include "ops/cuda/norm_result.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/norms/norm_partials.h"

namespace plimsoll::ops {

template <typename T>
struct NormBackward {
  const T* x;
  const T* weight;
  const float* mean;  // [rows]; unused by rms_norm
  const float* rstd;
  const T* dy;
  const T* acc;  // term that is added; may be nullptr
  T* dx;         // may be the memory of dy or acc; nullptr if not requested
  int64_t rows;
  int width;
  float offset = NormOffset(false);  // added to the weight
  float* partials = nullptr;         // [blocks][dweight?][dbias?][width]
  bool dweight = false, dbias = false;
  T* y = nullptr;  // result of the norm, for kernels that recompute it
  const T* bias = nullptr;
  T* dropped = nullptr;  // as dx, or the memory of x; nullptr if not requested
  ElementDropout dropout = {};
  // The largest magnitudes of results; nullptr if not requested.
  uint32_t* largest_y = nullptr;
  uint32_t* largest_dx = nullptr;
  uint32_t* largest_dropped = nullptr;

  __device__ int sums() const { return int{dweight} + int{dbias}; }
  bool largest() const {
    return largest_y != nullptr || largest_dx != nullptr || largest_dropped != nullptr;
  }
};

// The largest magnitudes of the results that a thread of such a kernel has stored.
struct NormBackwardLargest {
  uint32_t y = 0, dx = 0, dropped = 0;

  // All threads of a warp call it.
  template <typename T>
  __device__ void Add(const NormBackward<T>& p) const {
    if (p.largest_y != nullptr) AddLargestOfWarp(y, p.largest_y);
    if (p.largest_dx != nullptr) AddLargestOfWarp(dx, p.largest_dx);
    if (p.largest_dropped != nullptr) AddLargestOfWarp(dropped, p.largest_dropped);
  }
};

// The most packs of 16 bytes of a row that a lane takes.
inline constexpr int kNormBackwardPacks = 8;
// The most warps of a block; a multiprocessor has one block. The number leaves each lane the
// registers for its sums (16 floats for each pack of 16-bit elements).
constexpr int NormBackwardWarps(int packs) { return packs <= 4 ? 16 : 8; }
// The number of rows of a warp in shared memory: the current one and the one being fetched.
inline constexpr int kNormBackwardStages = 2;
// Bytes of shared memory. For each warp: x, dy and acc of these rows, and finally its sums. For a
// block: weight and bias.
constexpr int NormBackwardWarpShared(int packs) {
  return kNormBackwardStages * 3 * packs * kWarp * static_cast<int>(sizeof(uint4));
}
constexpr int NormBackwardWeightsShared(int packs, int row_warps) {
  return 2 * row_warps * packs * kWarp * static_cast<int>(sizeof(uint4));
}

// Synchronizes all threads of the warps that share a row. Barrier 0 belongs to __syncthreads().
__device__ inline void GroupBarrier(int group, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "r"(threads) : "memory");
}

// Two sums over a warp at once, one in each of its halves.
__device__ inline float2 WarpSums(float2 sums) {
  const bool upper = threadIdx.x & 16;
  float mine = upper ? sums.y : sums.x;
  mine += __shfl_xor_sync(~0u, upper ? sums.x : sums.y, 16);
#pragma unroll
  for (int offset = 8; offset > 0; offset /= 2) mine += __shfl_xor_sync(~0u, mine, offset);
  const float other = __shfl_xor_sync(~0u, mine, 16);
  return upper ? make_float2(other, mine) : make_float2(mine, other);
}

// `row_warps`: the number of warps that share a row, next to each other, each with kPacks packs of
// every lane.
template <typename T, bool kMean, bool kAgain, bool kDrop, bool kLargest, int kPacks>
__global__ __launch_bounds__(NormBackwardWarps(kPacks) * kWarp,
                             1) void NormBackwardKernel(NormBackward<T> p, int row_warps) {
  constexpr int kSize = kPackSize<T>;
  using Packed = Pack<T, kSize>;
  // Σĝ and Σ(ĝ·x̂) of each warp's part of a row. There are two copies, so that one barrier per row
  // is enough.
  __shared__ float2 part_sums[2][NormBackwardWarps(kPacks)];
  // [warps][stages][x, dy, acc][kPacks][kWarp]: every lane fetches the data that it will read.
  extern __shared__ uint4 fetched[];

  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = threadIdx.x % kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int group = warp / row_warps, groups = warps / row_warps;
  const int first_pack = warp % row_warps * kPacks * kWarp + lane;
  const int packs =
      p.width / kSize - first_pack;  // pack k of this lane exists if k · kWarp < packs
  const int column = first_pack * kSize;
  uint4* const slots = fetched + warp * (kNormBackwardStages * 3 * kPacks * kWarp) + lane;
  const auto slot = [&](int stage, int which, int k) {
    return reinterpret_cast<Packed*>(&slots[((stage * 3 + which) * kPacks + k) * kWarp]);
  };
  const auto fetch = [&](int stage, int64_t row) {
    if (row < p.rows) {
      const int64_t at = row * p.width + column;
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        if (k * kWarp >= packs) break;
        const int64_t from = at + k * kWarp * kSize;
        __pipeline_memcpy_async(slot(stage, 0, k), p.x + from, sizeof(Packed));
        __pipeline_memcpy_async(slot(stage, 1, k), p.dy + from, sizeof(Packed));
        if (p.acc != nullptr) {
          __pipeline_memcpy_async(slot(stage, 2, k), p.acc + from, sizeof(Packed));
        }
      }
    }
    __pipeline_commit();
  };
  const float scale = 1.0f / static_cast<float>(p.width);
  const bool drops = kDrop && p.dropped != nullptr;
  const uint2 key = drops ? PhiloxKey(p.dropout.rng) : uint2{};
  const int64_t step = int64_t{gridDim.x} * groups, last = p.rows - 1;
  int64_t row = int64_t{blockIdx.x} * groups + group;
  if (group >= groups) row = p.rows;  // leftover warps, too few for a row
  float next_mean = 0, next_rstd = p.rstd[min(row, last)];
  if constexpr (kMean) next_mean = p.mean[min(row, last)];
  fetch(0, row);

  // Weight and bias; zeros where they are absent.
  uint4* const weights = fetched + warps * kNormBackwardStages * 3 * kPacks * kWarp + first_pack;
  const int padded = row_warps * kPacks * kWarp;
  if (group == 0) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      uint4 words[2] = {};
      if (k * kWarp < packs) {
        words[0] = reinterpret_cast<const uint4*>(p.weight + column)[k * kWarp];
        if (p.bias != nullptr)
          words[1] = reinterpret_cast<const uint4*>(p.bias + column)[k * kWarp];
      }
      weights[k * kWarp] = words[0];
      if constexpr (kAgain && kMean) weights[padded + k * kWarp] = words[1];
    }
  }
  __syncthreads();
  const auto load = [&](int which, int k, float(&to)[kSize]) {
    ToFloats(reinterpret_cast<const Packed&>(weights[which * padded + k * kWarp]), to);
  };
  // Elements that do not exist count as zero.
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    for (int stage = 0; stage < kNormBackwardStages; ++stage) {
      if (k * kWarp >= packs) *slot(stage, 0, k) = *slot(stage, 1, k) = Packed{};
      if (p.acc == nullptr) *slot(stage, 2, k) = Packed{};
    }
  }

  float dweight[kPacks][kSize] = {}, dbias[kPacks][kSize] = {};
  NormBackwardLargest largest;
  int stage = 0;
#pragma unroll 1
  for (; row < p.rows; row += step, stage ^= 1) {
    fetch(stage ^ 1, row + step);
    const float mean = next_mean, rstd = next_rstd, shift = -mean * rstd;  // x̂ = x · rstd + shift
    next_rstd = p.rstd[min(row + step, last)];
    if constexpr (kMean) next_mean = p.mean[min(row + step, last)];
    __pipeline_wait_prior(1);

    float2 sums = {};  // Σĝ, Σ(ĝ·x̂)
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      float x[kSize], dy[kSize], weight[kSize];
      ToFloats(*slot(stage, 0, k), x);
      ToFloats(*slot(stage, 1, k), dy);
      load(0, k, weight);
      ToNormWeights(weight, p.offset);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const float normal = x[j] * rstd + shift;
        const float g = dy[j] * weight[j];
        if constexpr (kMean) sums.x += g;
        sums.y += g * normal;
        dweight[k][j] += dy[j] * normal;
        if constexpr (kMean) dbias[k][j] += dy[j];
      }
      if constexpr (kAgain) {
        float bias[kSize] = {}, y[kSize];
        if constexpr (kMean) load(1, k, bias);
#pragma unroll
        for (int j = 0; j < kSize; ++j) y[j] = NormResult(x[j], mean, rstd, weight[j], bias[j]);
        if (k * kWarp < packs) {
          const Packed rounded = RoundPack<T, kSize>(y);
          WriteGlobal(p.y + row * p.width + column + k * kWarp * kSize, rounded);
          IncludeStored<kLargest>(rounded, p.largest_y, largest.y);
        }
      }
    }
    if (!drops && p.dx == nullptr) continue;
    sums = WarpSums(sums);
    if (row_warps > 1) {
      if (lane == 0) part_sums[stage][warp] = sums;
      GroupBarrier(group, row_warps * kWarp);
      sums = {};
#pragma unroll 1
      for (int w = group * row_warps; w < (group + 1) * row_warps; ++w) {
        sums.x += part_sums[stage][w].x;
        sums.y += part_sums[stage][w].y;
      }
    }
    // dx = ĝ · rstd + x · of_x + constant. x and dy are read again, because keeping both would take
    // more registers.
    const float of_x = -sums.y * scale * rstd * rstd;
    const float constant = -rstd * scale * (sums.x + sums.y * shift);
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (k * kWarp >= packs) break;
      float x[kSize], dy[kSize], weight[kSize], acc[kSize];
      ToFloats(*slot(stage, 0, k), x);
      ToFloats(*slot(stage, 1, k), dy);
      load(0, k, weight);
      ToNormWeights(weight, p.offset);
      ToFloats(*slot(stage, 2, k), acc);
      float dx[kSize];
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        dx[j] = dy[j] * weight[j] * rstd + (x[j] * of_x + constant) + acc[j];
      }
      const int64_t at = row * p.width + column + k * kWarp * kSize;
      const Packed rounded = RoundPack<T, kSize>(dx);
      if (!kDrop || p.dx != nullptr) WriteGlobal(p.dx + at, rounded);
      IncludeStored<kLargest>(rounded, p.largest_dx, largest.dx);
      if (drops) {
        ToFloats(rounded, dx);
        DropElements(p.dropout, key, at, dx);
        const Packed dropped = RoundPack<T, kSize>(dx);
        WriteGlobal(p.dropped + at, dropped);
        IncludeStored<kLargest>(dropped, p.largest_dropped, largest.dropped);
      }
    }
  }
  if constexpr (kLargest) largest.Add(p);

  if (p.sums() == 0) return;
  LetDependentsLaunch();
  // The warps of a block store their sums next to each other; each thread then adds those of four
  // columns.
  __pipeline_wait_prior(0);
  __syncthreads();
  constexpr int kFours = kPacks * kWarp * kSize / 4;       // groups of four in a warp's part of a
                                                           // row
  auto* const fours = reinterpret_cast<float4*>(fetched);  // [dweight, dbias][warps][kFours]
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
#pragma unroll
    for (int j = 0; j < kSize; j += 4) {
      const int at = warp * kFours + ((k * kWarp + lane) * kSize + j) / 4;
      const float *w = &dweight[k][j], *b = &dbias[k][j];
      fours[at] = make_float4(w[0], w[1], w[2], w[3]);
      if constexpr (kMean) fours[warps * kFours + at] = make_float4(b[0], b[1], b[2], b[3]);
    }
  }
  __syncthreads();
  auto* const partial =
      reinterpret_cast<float4*>(p.partials + int64_t{blockIdx.x} * p.sums() * p.width);
  const int row_fours = p.width / 4;
  for (int i = static_cast<int>(threadIdx.x); i < p.sums() * row_fours;
       i += static_cast<int>(blockDim.x)) {
    const bool second = i >= row_fours;  // the second of two sums
    const bool bias = second || !p.dweight;
    const float4* from = fours + (bias ? warps * kFours : 0) + i - (second ? row_fours : 0);
    float4 sum = {};
#pragma unroll 4
    for (int g = 0; g < groups; ++g) {
      const float4 more = from[g * row_warps * kFours];
      sum.x += more.x;
      sum.y += more.y;
      sum.z += more.z;
      sum.w += more.w;
    }
    partial[i] = sum;
  }
}

// For any width and alignment: a block takes a row and reads it twice; a thread adds its columns of
// every row that the block takes to the partial sums in the workspace.
template <typename T, bool kMean, bool kAgain, bool kLargest>
__global__ __launch_bounds__(256) void NormBackwardAnyKernel(NormBackward<T> p) {
  __shared__ float shared[4][256 / kWarp];
  float* partial = p.partials + int64_t{blockIdx.x} * p.sums() * p.width;
  const int dbias_at = p.dweight ? p.width : 0;
  for (int i = threadIdx.x; i < p.sums() * p.width; i += blockDim.x) partial[i] = 0;
  __syncthreads();
  const float scale = 1.0f / static_cast<float>(p.width);
  NormBackwardLargest largest;
  int buffer = 0;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const T *x = p.x + row * p.width, *dy = p.dy + row * p.width;
    const float mean = kMean ? p.mean[row] : 0.0f, rstd = p.rstd[row];
    float g_sum = 0, gx_sum = 0;
    for (int i = threadIdx.x; i < p.width; i += blockDim.x) {
      const float d = ToFloat(dy[i]);
      const float normal = (ToFloat(x[i]) - mean) * rstd;
      const float g = d * NormWeight(ToFloat(p.weight[i]), p.offset);
      g_sum += g;
      gx_sum += g * normal;
      if (p.dweight) partial[i] += d * normal;
      if (p.dbias) partial[dbias_at + i] += d;
      if constexpr (kAgain) {
        const float bias = p.bias != nullptr ? ToFloat(p.bias[i]) : 0.0f;
        const T y = FromFloat<T>(NormResult(ToFloat(x[i]), mean, rstd,
                                            NormWeight(ToFloat(p.weight[i]), p.offset), bias));
        p.y[row * p.width + i] = y;
        IncludeStored<kLargest>(Pack<T, 1>{y}, p.largest_y, largest.y);
      }
    }
    const float g_mean = kMean ? BlockSum<256>(g_sum, shared[buffer]) * scale : 0.0f;
    const float gx_mean = BlockSum<256>(gx_sum, shared[buffer + 1]) * scale;
    buffer ^= 2;
    if (p.dx == nullptr && p.dropped == nullptr) continue;
    for (int i = threadIdx.x; i < p.width; i += blockDim.x) {
      const float normal = (ToFloat(x[i]) - mean) * rstd;
      float d = (ToFloat(dy[i]) * NormWeight(ToFloat(p.weight[i]), p.offset) - g_mean -
                 normal * gx_mean) *
                rstd;
      if (p.acc != nullptr) d += ToFloat(p.acc[row * p.width + i]);
      const T rounded = FromFloat<T>(d);
      const int64_t at = row * p.width + i;
      if (p.dx != nullptr) p.dx[at] = rounded;
      IncludeStored<kLargest>(Pack<T, 1>{rounded}, p.largest_dx, largest.dx);
      if (p.dropped != nullptr) {
        const T dropped = FromFloat<T>(DropElement(p.dropout, at, ToFloat(rounded)));
        p.dropped[at] = dropped;
        IncludeStored<kLargest>(Pack<T, 1>{dropped}, p.largest_dropped, largest.dropped);
      }
    }
  }
  if constexpr (kLargest) largest.Add(p);
}

// The kernel that handles the call `p`.
template <typename T, bool kMean, bool kAgain, int kPacks>
auto* NormBackwardKernelOf(const NormBackward<T>& p) {
  if (p.largest()) return &NormBackwardKernel<T, kMean, kAgain, true, /*kLargest=*/true, kPacks>;
  return p.dropped != nullptr
             ? &NormBackwardKernel<T, kMean, kAgain, /*kDrop=*/true, false, kPacks>
             : &NormBackwardKernel<T, kMean, kAgain, /*kDrop=*/false, false, kPacks>;
}

// out[0] is dweight and out[1] dbias; nullptr: not requested. acc is added to them.
template <typename T, bool kMean, bool kAgain = false>
void LaunchNormBackward(NormBackward<T> p, const float* const (&acc)[2], float* const (&out)[2],
                        const CudaContext& ctx) {
  ColumnSums sums{static_cast<const float*>(ctx.workspace), NormPartials(p.rows), p.width};
  for (int i = 0; i < 2; ++i) {
    if (out[i] == nullptr) continue;
    sums.acc[sums.sums] = acc[i];
    sums.out[sums.sums++] = out[i];
  }
  p.partials = static_cast<float*>(ctx.workspace);
  p.dweight = out[0] != nullptr;
  p.dbias = out[1] != nullptr;

  ClearLargest({p.largest_y, p.largest_dx, p.largest_dropped}, ctx.stream);

  constexpr int kSize = kPackSize<T>;
  const int packs = p.width / kSize;
  const unsigned blocks = static_cast<unsigned>(sums.count);
  const int row_warps = (packs + kNormBackwardPacks * kWarp - 1) / (kNormBackwardPacks * kWarp);
  const int lane_packs = (packs + row_warps * kWarp - 1) / (row_warps * kWarp);
  // Older GPUs have less shared memory.
  const int room = static_cast<int>(ctx.libraries.capability().shared_bytes()) - 1024;
  const auto launch = [&]<int kPacks>() {
    auto* const kernel = NormBackwardKernelOf<T, kMean, kAgain, kPacks>(p);
    const int weights = NormBackwardWeightsShared(kPacks, row_warps);
    const int warps =
        std::min(NormBackwardWarps(kPacks), (room - weights) / NormBackwardWarpShared(kPacks));
    const int shared = warps * NormBackwardWarpShared(kPacks) + weights;
    gpu::AllowSharedMemory(kernel, shared);
    kernel<<<blocks, warps * kWarp, shared, ctx.stream>>>(p, row_warps);
  };
  if (p.width % kSize != 0 || row_warps > NormBackwardWarps(kNormBackwardPacks) ||
      row_warps * NormBackwardWarpShared(kNormBackwardPacks) +
              NormBackwardWeightsShared(kNormBackwardPacks, row_warps) >
          room ||
      !Aligned(p.x, p.weight, p.dy, p.acc, p.dx, p.y, p.bias, p.dropped)) {
    auto* const kernel = p.largest() ? &NormBackwardAnyKernel<T, kMean, kAgain, true>
                                     : &NormBackwardAnyKernel<T, kMean, kAgain, false>;
    kernel<<<blocks, 256, 0, ctx.stream>>>(p);
  } else if (lane_packs <= 2) {
    launch.template operator()<2>();
  } else if (lane_packs == 3) {
    launch.template operator()<3>();
  } else if (lane_packs == 4) {
    launch.template operator()<4>();
  } else if (lane_packs <= 6) {
    launch.template operator()<6>();
  } else if (lane_packs == 7) {
    launch.template operator()<7>();
  } else {
    launch.template operator()<8>();
  }
  gpu::CheckLaunch("norm, backward");
  if (sums.sums > 0) LaunchColumnSums(sums, ctx);
}

}  // namespace plimsoll::ops
