// Forward kernels of layer_norm and rms_norm, and of both after an addition:
//   x = a (+ b, rounded to the type of a),   y = (x − mean) · rstd · weight (+ bias).
// With dropout (kDrop), b's elements are dropped, and rounded, before they are added. rms_norm
// (kMean false) has no mean: rstd = 1 / √(mean of x² + eps). With a unit offset, 1 + weight
// replaces the weight.
//
// A row is read once, 16 bytes per thread and load, and stays in registers until it is written: by
// one warp if 8 such loads are enough (2048 elements of 16 bits), otherwise by a block of 256
// threads. Rows that are longer, or don't consist of full packs of 16 bytes, are read three times.
// Bytes: 2·N·D·s, and 2·N·D·s more for b and the sum. The largest magnitudes of results (kLargest)
// take no bytes: each block adds its own.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/check.h"
#include "ops/cuda/element_dropout.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/largest.cuh"
#include "ops/cuda/norm_result.cuh"
#include "ops/cuda/norm_statistics.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {

template <typename T>
struct NormForward {
  const T* a;
  const T* b = nullptr;  // only for kernels that add
  const T* bias = nullptr;
  T* sum = nullptr;       // a + b; may be the memory of either
  T* y;                   // may be the memory of a or b
  float* mean = nullptr;  // [rows] or nullptr, like rstd
  float* rstd = nullptr;
  int64_t rows;
  int width;
  float eps;
  float offset = NormOffset(false);  // added to the weight
  ElementDropout dropout = {};       // dropout of b
  // The largest magnitudes of results; nullptr if not requested.
  uint32_t* largest_sum = nullptr;
  uint32_t* largest_y = nullptr;
};

// The number of threads of a block that shares a row, and of a block whose warps each have their
// own row. The latter is larger if a block adds its largest magnitudes, so that fewer blocks do.
inline constexpr int kNormBlock = 256, kNormWarps = 64, kNormWarpsLargest = 128;

// The most packs of 16 bytes of a row that a thread takes.
inline constexpr int kNormPacks = 8;

// Whether the kernel reads rows as packs. Then a warp takes a row of at most kNormPacks packs per
// thread, and a block a longer one. Otherwise a block takes each row as single elements.
template <typename T>
bool TakesNormPacks(const NormForward<T>& p, const T* weight) {
  return p.width % kPackSize<T> == 0 && p.width / kPackSize<T> <= kNormPacks * kNormBlock &&
         Aligned(p.a, p.b, weight, p.bias, p.sum, p.y);
}

// All threads of a block call it.
template <int kBlock, typename T>
__device__ void AddLargestOfNorm(const NormForward<T>& p, uint32_t sum, uint32_t y) {
  __shared__ uint32_t shared[2][kBlock / kWarp];
  if (p.largest_sum != nullptr) AddLargest<kBlock>(sum, shared[0], p.largest_sum);
  if (p.largest_y != nullptr) AddLargest<kBlock>(y, shared[1], p.largest_y);
}

// Sum over the kThreads threads that share a row. `shared` must not be used by another call.
template <int kThreads>
__device__ float RowSum(float x, float* shared) {
  if constexpr (kThreads == kWarp) {
    return WarpSum(x);
  } else {
    return BlockSum<kThreads>(x, shared);
  }
}

constexpr int NormBlock(int threads, bool largest) {
  return threads != kWarp ? kNormBlock : largest ? kNormWarpsLargest : kNormWarps;
}

template <typename T, bool kMean, bool kAdd, bool kDrop, bool kLargest, int kThreads, int kPacks>
__global__ __launch_bounds__(NormBlock(kThreads, kLargest)) void NormForwardKernel(
    NormForward<T> p, const T* __restrict__ weight, const T* __restrict__ bias) {
  constexpr int kSize = kPackSize<T>, kBlock = NormBlock(kThreads, kLargest);
  __shared__ float shared[2][kNormBlock / kWarp];
  const int64_t row =
      int64_t{blockIdx.x} * (kBlock / kThreads) + static_cast<int>(threadIdx.x) / kThreads;
  // To add its largest magnitudes, a block needs all of its warps, including those without a row.
  const bool exists = row < p.rows;
  if (!kLargest && !exists) return;
  const int lane = static_cast<int>(threadIdx.x) % kThreads;
  const int64_t start = row * p.width;
  const int packs = !kLargest || exists ? p.width / kSize : 0;
  uint32_t largest_sum = 0, largest_y = 0;

  Pack<T, kSize> x[kPacks];
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int i = k * kThreads + lane;
    if (i < packs) x[k] = reinterpret_cast<const Pack<T, kSize>*>(p.a + start)[i];
  }
  if constexpr (kAdd) {
    const uint2 key = kDrop ? PhiloxKey(p.dropout.rng) : uint2{};
    Pack<T, kSize> b[kPacks];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int i = k * kThreads + lane;
      if (i < packs) b[k] = reinterpret_cast<const Pack<T, kSize>*>(p.b + start)[i];
    }
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int i = k * kThreads + lane;
      if (i >= packs) continue;
      float sum[kSize], more[kSize];
      ToFloats(x[k], sum);
      ToFloats(b[k], more);
      if constexpr (kDrop) {
        DropElements(p.dropout, key, start + i * kSize, more);
        ToFloats(RoundPack<T, kSize>(more), more);
      }
#pragma unroll
      for (int j = 0; j < kSize; ++j) sum[j] = __fadd_rn(sum[j], more[j]);
      x[k] = RoundPack<T, kSize>(sum);
      WriteGlobal(p.sum + start + i * kSize, x[k]);
      IncludeStored<kLargest>(x[k], p.largest_sum, largest_sum);
    }
  }

  const float scale = 1.0f / static_cast<float>(p.width);
  float mean = 0;
  if constexpr (kMean) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (k * kThreads + lane >= packs) continue;
      float values[kSize];
      ToFloats(x[k], values);
      AddElements(values, sum);
    }
    mean = MeanOfSum(RowSum<kThreads>(sum, shared[0]), scale);
  }
  float squares = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (k * kThreads + lane >= packs) continue;
    KeepPacked(x[k]);
    float values[kSize];
    ToFloats(x[k], values);
    AddSquares<kMean>(values, mean, squares);
  }
  const float rstd = RstdOfSquares(RowSum<kThreads>(squares, shared[1]), scale, p.eps);

#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int i = k * kThreads + lane;
    if (i >= packs) continue;
    KeepPacked(x[k]);
    float values[kSize], w[kSize], result[kSize];
    ToFloats(x[k], values);
    LoadPack<kSize>(weight + i * kSize, w);
    ToNormWeights(w, p.offset);
    if (bias != nullptr) {
      LoadPack<kSize>(bias + i * kSize, result);
    } else {
#pragma unroll
      for (int j = 0; j < kSize; ++j) result[j] = 0;
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      result[j] = NormResult(values[j], mean, rstd, w[j], result[j]);
    }
    const Pack<T, kSize> y = RoundPack<T, kSize>(result);
    WriteGlobal(p.y + start + i * kSize, y);
    IncludeStored<kLargest>(y, p.largest_y, largest_y);
  }
  if (lane == 0 && exists) {
    if (p.mean != nullptr) p.mean[row] = mean;
    if (p.rstd != nullptr) p.rstd[row] = rstd;
  }
  if constexpr (kLargest) AddLargestOfNorm<kBlock>(p, largest_sum, largest_y);
}

// The kernel for any width and alignment: a block takes a row. Each thread has the same elements in
// every pass, so that it reads from `sum` only what it has written itself.
template <typename T, bool kMean, bool kAdd, bool kLargest>
__global__ __launch_bounds__(kNormBlock) void NormForwardAnyKernel(NormForward<T> p,
                                                                   const T* weight) {
  __shared__ float shared[2][kNormBlock / kWarp];
  const int64_t row = blockIdx.x;
  const int64_t start = row * p.width;
  const T* x = (kAdd ? p.sum : p.a) + start;
  uint32_t largest_sum = 0, largest_y = 0;
  if constexpr (kAdd) {
    for (int i = threadIdx.x; i < p.width; i += kNormBlock) {
      float more = ToFloat(p.b[start + i]);
      if (p.dropout.rng != nullptr) {
        more = ToFloat(FromFloat<T>(DropElement(p.dropout, start + i, more)));
      }
      const T sum = FromFloat<T>(__fadd_rn(ToFloat(p.a[start + i]), more));
      p.sum[start + i] = sum;
      IncludeStored<kLargest>(Pack<T, 1>{sum}, p.largest_sum, largest_sum);
    }
  }
  const float scale = 1.0f / static_cast<float>(p.width);
  float mean = 0;
  if constexpr (kMean) {
    float sum = 0;
    for (int i = threadIdx.x; i < p.width; i += kNormBlock) AddElements({ToFloat(x[i])}, sum);
    mean = MeanOfSum(BlockSum<kNormBlock>(sum, shared[0]), scale);
  }
  float squares = 0;
  for (int i = threadIdx.x; i < p.width; i += kNormBlock) {
    AddSquares<kMean>({ToFloat(x[i])}, mean, squares);
  }
  const float rstd = RstdOfSquares(BlockSum<kNormBlock>(squares, shared[1]), scale, p.eps);
  for (int i = threadIdx.x; i < p.width; i += kNormBlock) {
    const float bias = p.bias != nullptr ? ToFloat(p.bias[i]) : 0.0f;
    const T y = FromFloat<T>(
        NormResult(ToFloat(x[i]), mean, rstd, NormWeight(ToFloat(weight[i]), p.offset), bias));
    p.y[start + i] = y;
    IncludeStored<kLargest>(Pack<T, 1>{y}, p.largest_y, largest_y);
  }
  if (threadIdx.x == 0) {
    if (p.mean != nullptr) p.mean[row] = mean;
    if (p.rstd != nullptr) p.rstd[row] = rstd;
  }
  if constexpr (kLargest) AddLargestOfNorm<kNormBlock>(p, largest_sum, largest_y);
}

template <typename T, bool kMean, bool kAdd, bool kDrop, bool kLargest>
void LaunchNormForwardRows(const NormForward<T>& p, const T* weight, cudaStream_t stream) {
  constexpr int kSize = kPackSize<T>;
  const int packs = p.width / kSize;
  const auto launch = [&]<int kThreads, int kPacks>() {
    constexpr int kBlock = NormBlock(kThreads, kLargest), kRows = kBlock / kThreads;
    NormForwardKernel<T, kMean, kAdd, kDrop, kLargest, kThreads, kPacks>
        <<<static_cast<unsigned>((p.rows + kRows - 1) / kRows), kBlock, 0, stream>>>(p, weight,
                                                                                     p.bias);
  };
  if (!TakesNormPacks(p, weight)) {
    NormForwardAnyKernel<T, kMean, kAdd, kLargest>
        <<<static_cast<unsigned>(p.rows), kNormBlock, 0, stream>>>(p, weight);
  } else if (packs <= kWarp) {
    launch.template operator()<kWarp, 1>();
  } else if (packs <= 2 * kWarp) {
    launch.template operator()<kWarp, 2>();
  } else if (packs <= 3 * kWarp) {
    launch.template operator()<kWarp, 3>();
  } else if (packs <= 4 * kWarp) {
    launch.template operator()<kWarp, 4>();
  } else if (packs <= 6 * kWarp) {
    launch.template operator()<kWarp, 6>();
  } else if (packs <= 7 * kWarp) {
    launch.template operator()<kWarp, 7>();
  } else if (packs <= kNormPacks * kWarp) {
    launch.template operator()<kWarp, kNormPacks>();
  } else if (packs <= 2 * kNormBlock) {
    launch.template operator()<kNormBlock, 2>();
  } else if (packs <= 4 * kNormBlock) {
    launch.template operator()<kNormBlock, 4>();
  } else {
    launch.template operator()<kNormBlock, kNormPacks>();
  }
  gpu::CheckLaunch("norm, forward");
}

template <typename T, bool kMean, bool kAdd, bool kDrop = false>
void LaunchNormForward(const NormForward<T>& p, const T* weight, cudaStream_t stream) {
  ClearLargest({p.largest_sum, p.largest_y}, stream);
  if (p.rows == 0) return;
  p.largest_sum != nullptr || p.largest_y != nullptr
      ? LaunchNormForwardRows<T, kMean, kAdd, kDrop, true>(p, weight, stream)
      : LaunchNormForwardRows<T, kMean, kAdd, kDrop, false>(p, weight, stream);
}

}  // namespace plimsoll::ops
