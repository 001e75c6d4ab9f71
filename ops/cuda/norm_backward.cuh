// Backward kernels of layer_norm and rms_norm (kMean false, no dbias). With x̂ = (x − mean) · rstd
// and ĝ = dy · weight:
//   dx = rstd · (ĝ − Σĝ / D − x̂ · Σ(ĝ·x̂) / D) (+ acc),   dweight = Σ_rows dy · x̂,   dbias = Σ_rows
//   dy.
//
// One pass over the rows. A group of warps walks rows, kRows at a time, each of its threads owning
// one pack of 16 bytes of columns: it keeps its share of dweight and dbias in registers from row to
// row, and the two sums of a row meet in shared memory. At the end a block's groups add up theirs,
// in their order, and the block leaves partial sums in the workspace; ops/cuda/column_sums.cuh adds
// those. Blocks, and so the order of every sum, depend on the shape alone.
// Bytes: 3·N·D·s, and N·D·s more for acc, and for y where the norm is made again as well (kAgain).
#pragma once

#include <cuda_pipeline.h>

#include <algorithm>
#include <cstdint>

#include "gpu/check.h"
#include "ops/cuda/column_sums.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/norm_result.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/norm_partials.h"

namespace plimsoll::ops {

template <typename T>
struct NormBackward {
  const T* x;
  const T* weight;
  const float* mean;  // [rows]; not of rms_norm
  const float* rstd;
  const T* dy;
  const T* acc;  // nullptr: none
  T* dx;         // may be the memory of dy or acc; nullptr: not wanted
  int64_t rows;
  int width;
  float* partials = nullptr;  // [blocks][dweight?][dbias?][width]
  bool dweight = false, dbias = false;
  T* y = nullptr;  // of kernels that make the norm again
  const T* bias = nullptr;

  __device__ int sums() const { return int{dweight} + int{dbias}; }
};

// A block has as many groups as fit in so many threads: 640 leave each the registers that its sums
// take. Where those would be fewer than three groups, or a group is larger, more threads with fewer
// registers do better.
inline constexpr int kNormBackwardThreads[] = {640, 768, 1024};

// Rows that a group works on at a time; how many times as many are on their way, these included.
inline constexpr int kNormBackwardRows = 2;
inline constexpr int kNormBackwardStages = 2;
// Bytes of shared memory for each thread: x, dy and acc of these rows; in the end its sums.
inline constexpr int kNormBackwardShared =
    kNormBackwardStages * kNormBackwardRows * 3 * sizeof(uint4);

// All threads of a group, which has a barrier of its own (0 is __syncthreads()'s).
__device__ inline void GroupBarrier(int group, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "r"(threads) : "memory");
}

// Four sums over a warp at once: sums[i] ends in lanes 8·i to 8·i + 7.
__device__ inline float WarpSums(const float (&sums)[4]) {
  const int lane = threadIdx.x % kWarp;
  const bool upper = lane & 16, odd = lane & 8;
  // Each half of the warp goes on with two of the sums, each quarter with one.
  float first = upper ? sums[2] : sums[0], second = upper ? sums[3] : sums[1];
  first += __shfl_xor_sync(~0u, upper ? sums[0] : sums[2], 16);
  second += __shfl_xor_sync(~0u, upper ? sums[1] : sums[3], 16);
  float mine = odd ? second : first;
  mine += __shfl_xor_sync(~0u, odd ? first : second, 8);
#pragma unroll
  for (int offset = 4; offset > 0; offset /= 2) mine += __shfl_xor_sync(~0u, mine, offset);
  return mine;
}

template <typename T, bool kMean, bool kAgain, int kThreads>
__global__ __launch_bounds__(kThreads) void NormBackwardKernel(NormBackward<T> p,
                                                               int group_threads) {
  constexpr int kSize = kPackSize<T>;
  constexpr int kRows = kNormBackwardRows, kStages = kNormBackwardStages;
  using Packed = Pack<T, kSize>;
  // Of each warp: Σĝ and Σ(ĝ·x̂) of both rows. Twice, so that one barrier for two rows is enough.
  __shared__ float4 row_sums[2][kThreads / kWarp];
  // [kStages][kRows][x, dy, acc][threads]: every thread fetches what it will read itself.
  extern __shared__ uint4 fetched[];

  const int thread = threadIdx.x, lane = thread % kWarp;
  const int group = thread / group_threads, groups = blockDim.x / group_threads;
  const int in_group = thread % group_threads;
  const int warps = group_threads / kWarp, first_warp = group * warps;
  const bool active = in_group * kSize < p.width;
  const int column = active ? in_group * kSize : 0;
  const auto slot = [&](int stage, int r, int which) {
    return reinterpret_cast<Packed*>(
        &fetched[((stage * kRows + r) * 3 + which) * blockDim.x + thread]);
  };
  const auto fetch = [&](int stage, int64_t row) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (!active || row + r >= p.rows) continue;
      const int64_t at = (row + r) * p.width + column;
      __pipeline_memcpy_async(slot(stage, r, 0), p.x + at, sizeof(Packed));
      __pipeline_memcpy_async(slot(stage, r, 1), p.dy + at, sizeof(Packed));
      if (p.acc != nullptr) {
        __pipeline_memcpy_async(slot(stage, r, 2), p.acc + at, sizeof(Packed));
      }
    }
    __pipeline_commit();
  };

  const Packed weight = *reinterpret_cast<const Packed*>(p.weight + column);
  float dweight[kSize] = {}, dbias[kSize] = {};
  const float scale = 1.0f / static_cast<float>(p.width);

  const int64_t step = int64_t{gridDim.x} * groups * kRows;
  int64_t row = (int64_t{blockIdx.x} * groups + group) * kRows;
  const int64_t last = p.rows - 1;
  float next_mean[kRows] = {}, next_rstd[kRows];
  const auto fetch_statistics = [&](int64_t from) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if constexpr (kMean) next_mean[r] = p.mean[min(from + r, last)];
      next_rstd[r] = p.rstd[min(from + r, last)];
    }
  };
  fetch_statistics(row);
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) fetch(s, row + s * step);
  int stage = 0, buffer = 0;
  for (; row < p.rows; row += step) {
    fetch(stage == 0 ? kStages - 1 : stage - 1, row + (kStages - 1) * step);
    float rstd[kRows], shift[kRows];  // x̂ = x · rstd + shift
    [[maybe_unused]] float mean[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      mean[r] = next_mean[r];
      rstd[r] = next_rstd[r];
      shift[r] = -next_mean[r] * next_rstd[r];
    }
    fetch_statistics(row + step);
    __pipeline_wait_prior(kStages - 1);

    float sums[2 * kRows] = {};  // Σĝ and Σ(ĝ·x̂) of each row
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (!active || row + r >= p.rows) continue;
      const Packed x = *slot(stage, r, 0), dy = *slot(stage, r, 1);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const float d = ToFloat(dy.values[j]);
        const float normal = ToFloat(x.values[j]) * rstd[r] + shift[r];
        const float g = d * ToFloat(weight.values[j]);
        if constexpr (kMean) sums[2 * r] += g;
        sums[2 * r + 1] += g * normal;
        dweight[j] += d * normal;
        if constexpr (kMean) dbias[j] += d;
      }
      if constexpr (kAgain) {
        Packed bias = {}, y;
        if (p.bias != nullptr) bias = *reinterpret_cast<const Packed*>(p.bias + column);
#pragma unroll
        for (int j = 0; j < kSize; ++j) {
          y.values[j] =
              FromFloat<T>(NormResult(ToFloat(x.values[j]), mean[r], rstd[r],
                                      ToFloat(weight.values[j]), ToFloat(bias.values[j])));
        }
        *reinterpret_cast<Packed*>(p.y + (row + r) * p.width + column) = y;
      }
    }
    if (p.dx != nullptr) {
      const float sum = WarpSums(sums);
      if (lane % 8 == 0) {
        reinterpret_cast<float*>(&row_sums[buffer][thread / kWarp])[lane / 8] = sum;
      }
      GroupBarrier(group, group_threads);
      float4 total = row_sums[buffer][first_warp];
      for (int w = first_warp + 1; w < first_warp + warps; ++w) {
        const float4 more = row_sums[buffer][w];
        total.x += more.x;
        total.y += more.y;
        total.z += more.z;
        total.w += more.w;
      }
      buffer ^= 1;
      const float g_sums[kRows] = {total.x, total.z}, gx_sums[kRows] = {total.y, total.w};
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (!active || row + r >= p.rows) continue;
        // dx = ĝ · rstd + x · of_x + constant. Read again: to keep both would take more registers.
        const float of_x = -gx_sums[r] * scale * rstd[r] * rstd[r];
        const float constant = -rstd[r] * scale * (g_sums[r] + gx_sums[r] * shift[r]);
        const Packed x = *slot(stage, r, 0), dy = *slot(stage, r, 1);
        Packed acc, result;
        if (p.acc != nullptr) acc = *slot(stage, r, 2);
#pragma unroll
        for (int j = 0; j < kSize; ++j) {
          const float g = ToFloat(dy.values[j]) * ToFloat(weight.values[j]);
          float d = g * rstd[r] + (ToFloat(x.values[j]) * of_x + constant);
          if (p.acc != nullptr) d += ToFloat(acc.values[j]);
          result.values[j] = FromFloat<T>(d);
        }
        *reinterpret_cast<Packed*>(p.dx + (row + r) * p.width + column) = result;
      }
    }
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }

  if (p.sums() == 0) return;
  LetDependentsLaunch();
  // A block's groups lay their sums side by side, four columns at a time, and all threads add them.
  __pipeline_wait_prior(0);
  __syncthreads();
  constexpr int kFours = kSize / 4;                  // of a thread, in each sum
  auto* fours = reinterpret_cast<float4*>(fetched);  // [dweight, dbias][kFours][groups][threads]
  const auto place = [&](int four, int of_group, int of_thread) {
    return &fours[(four * groups + of_group) * group_threads + of_thread];
  };
#pragma unroll
  for (int k = 0; k < kFours; ++k) {
    const int j = 4 * k;
    *place(k, group, in_group) =
        make_float4(dweight[j], dweight[j + 1], dweight[j + 2], dweight[j + 3]);
    *place(kFours + k, group, in_group) =
        make_float4(dbias[j], dbias[j + 1], dbias[j + 2], dbias[j + 3]);
  }
  __syncthreads();
  float* partial = p.partials + int64_t{blockIdx.x} * p.sums() * p.width;
  for (int i = thread; i < 2 * kFours * group_threads; i += blockDim.x) {
    const int four = i / group_threads, of_thread = i % group_threads;
    const bool bias = four >= kFours;
    if (of_thread * kSize >= p.width || !(bias ? p.dbias : p.dweight)) continue;
    float4 sum = *place(four, 0, of_thread);
    for (int g = 1; g < groups; ++g) {
      const float4 more = *place(four, g, of_thread);
      sum.x += more.x;
      sum.y += more.y;
      sum.z += more.z;
      sum.w += more.w;
    }
    float* to = partial + (bias && p.dweight ? p.width : 0) + of_thread * kSize + four % kFours * 4;
    *reinterpret_cast<float4*>(to) = sum;
  }
}

// Any width and alignment: a block for a row, read twice; a thread adds its columns of every row
// that the block meets to the partial sums in the workspace.
template <typename T, bool kMean, bool kAgain>
__global__ __launch_bounds__(256) void NormBackwardAnyKernel(NormBackward<T> p) {
  __shared__ float shared[4][256 / kWarp];
  float* partial = p.partials + int64_t{blockIdx.x} * p.sums() * p.width;
  const int dbias_at = p.dweight ? p.width : 0;
  for (int i = threadIdx.x; i < p.sums() * p.width; i += blockDim.x) partial[i] = 0;
  __syncthreads();
  const float scale = 1.0f / static_cast<float>(p.width);
  int buffer = 0;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const T *x = p.x + row * p.width, *dy = p.dy + row * p.width;
    const float mean = kMean ? p.mean[row] : 0.0f, rstd = p.rstd[row];
    float g_sum = 0, gx_sum = 0;
    for (int i = threadIdx.x; i < p.width; i += blockDim.x) {
      const float d = ToFloat(dy[i]);
      const float normal = (ToFloat(x[i]) - mean) * rstd;
      const float g = d * ToFloat(p.weight[i]);
      g_sum += g;
      gx_sum += g * normal;
      if (p.dweight) partial[i] += d * normal;
      if (p.dbias) partial[dbias_at + i] += d;
      if constexpr (kAgain) {
        const float bias = p.bias != nullptr ? ToFloat(p.bias[i]) : 0.0f;
        p.y[row * p.width + i] =
            FromFloat<T>(NormResult(ToFloat(x[i]), mean, rstd, ToFloat(p.weight[i]), bias));
      }
    }
    const float g_mean = kMean ? BlockSum<256>(g_sum, shared[buffer]) * scale : 0.0f;
    const float gx_mean = BlockSum<256>(gx_sum, shared[buffer + 1]) * scale;
    buffer ^= 2;
    if (p.dx == nullptr) continue;
    for (int i = threadIdx.x; i < p.width; i += blockDim.x) {
      const float normal = (ToFloat(x[i]) - mean) * rstd;
      float d = (ToFloat(dy[i]) * ToFloat(p.weight[i]) - g_mean - normal * gx_mean) * rstd;
      if (p.acc != nullptr) d += ToFloat(p.acc[row * p.width + i]);
      p.dx[row * p.width + i] = FromFloat<T>(d);
    }
  }
}

// out[0] is dweight, out[1] dbias, either nullptr when not wanted; acc is added to them.
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

  constexpr int kSize = kPackSize<T>;
  const int packs = p.width / kSize;
  const unsigned blocks = static_cast<unsigned>(sums.count);
  const int group_threads = (packs + kWarp - 1) / kWarp * kWarp;
  // Older GPUs have less shared memory.
  const int room = static_cast<int>(ctx.libraries.properties().sharedMemPerBlockOptin) - 1024;
  const int most = room / kNormBackwardShared;
  const auto launch = [&]<int kThreads>() {
    const auto kernel = &NormBackwardKernel<T, kMean, kAgain, kThreads>;
    // There are 15 barriers for groups.
    const int threads = std::clamp(std::min(kThreads, most) / group_threads, 1, 15) * group_threads;
    const int shared = threads * kNormBackwardShared;
    gpu::Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
               "cudaFuncSetAttribute");
    kernel<<<blocks, threads, shared, ctx.stream>>>(p, group_threads);
  };
  if (p.width % kSize != 0 || group_threads > std::min(most, kNormBackwardThreads[2]) ||
      !Aligned(p.x, p.weight, p.dy, p.acc, p.dx, p.y, p.bias)) {
    NormBackwardAnyKernel<T, kMean, kAgain><<<blocks, 256, 0, ctx.stream>>>(p);
  } else if (3 * group_threads <= kNormBackwardThreads[0]) {
    launch.template operator()<kNormBackwardThreads[0]>();
  } else if (group_threads <= kNormBackwardThreads[1]) {
    launch.template operator()<kNormBackwardThreads[1]>();
  } else {
    launch.template operator()<kNormBackwardThreads[2]>();
  }
  gpu::CheckLaunch("norm, backward");
  if (sums.sums > 0) LaunchColumnSums(sums, ctx);
}

}  // namespace plimsoll::ops
