// Computes a result for each element of x, from the same element of a few tensors and the terms of
// its channel. Grid: (rows, columns, groups); all blocks run at once, so that a block computes the
// terms of its channels once. Rows are swept from first to last, because sums over them go the
// other way. Threads keep the elements that they read packed, as in memory, and convert two at a
// time.
//
// Optionally also writes one bit for each result: whether it is positive. Bytes: every tensor once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/cuda/batch_norm_columns.cuh"
#include "ops/cuda/positive_bits.cuh"
#include "ops/norms/batch_norm_partials.h"

namespace plimsoll::ops {

inline constexpr int kRowBlocks = 3;   // number of blocks that run at once on a multiprocessor
inline constexpr int kRowsAtOnce = 4;  // number of rows that a thread loads before its first store

// Terms that also write where results are positive.
template <typename Terms>
concept GivesPositive = requires(const Terms& terms) {
  terms.positive;
};

// Terms has
//   kTensors, kTerms
//   const T* tensors[kTensors]       the tensors that are read; nullptr counts as zeros
//   At(group, column, columns, float (&)[kTerms])      computes the terms of a channel
//   Make<kWide>(terms, values, results)                computes kWide results; the first two
//                                                      arrays are [kTerms or kTensors][kWide]
//   uint8_t* positive                                  optional: where the bits are written
// At may read results of the previous kernel, if this one was launched as its second stage.
template <int N, int kAcross, typename T, typename Terms>
__global__ void __launch_bounds__(kNormThreads, kRowBlocks)
    RowsKernel(const __grid_constant__ Terms terms, int64_t rows, int64_t columns, T* out) {
  using Steps = RowSteps<kAcross, kRowsAtOnce>;
  constexpr int kDown = Steps::kDown, kWide = kNormWide<N>;
  constexpr bool kPositive = GivesPositive<Terms>, kAllStay = kPositive && kJoinsBits<N>;
  __shared__ BlockChannels<N, kAcross, Terms::kTerms> channels;
  const int64_t first = int64_t{blockIdx.y} * kAcross * N, group = blockIdx.z;
  AwaitFirstStage();
  channels.Set(first, columns, [&](int64_t column, float(&found)[Terms::kTerms]) {
    terms.At(group, column, columns, found);
  });
  const int64_t column = first + threadIdx.x % kAcross * N;
  const bool there = column < columns;
  if (!kAllStay && !there) return;
  const int64_t origin = group * rows * columns + column;
  Steps::ForEach(rows, blockIdx.x, gridDim.x, /*from_end=*/false, [&](int64_t row) {
    Pack<T, N> packs[kRowsAtOnce][Terms::kTensors] = {};
    uint32_t positive[kRowsAtOnce] = {};
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) {
      const int64_t r = row + k * kDown;
      if (r >= rows || (kAllStay && !there)) continue;
#pragma unroll
      for (int t = 0; t < Terms::kTensors; ++t) {
        if (terms.tensors[t] != nullptr) {
          packs[k][t] = ReadPack<N>(terms.tensors[t] + origin + r * columns);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < N; i += kWide) {
      float known[Terms::kTerms][kWide];
      channels.Get(i, known);
#pragma unroll
      for (int k = 0; k < kRowsAtOnce; ++k) {
        float values[Terms::kTensors][kWide], results[kWide];
#pragma unroll
        for (int t = 0; t < Terms::kTensors; ++t) PartOf(packs[k][t], i, values[t]);
        terms.template Make<kWide>(known, values, results);
        RoundInto(packs[k][0], i, results);
        if constexpr (kPositive) {
#pragma unroll
          for (int w = 0; w < kWide; ++w) {
            positive[k] |= (IsPositive<T>(results[w]) ? 1u : 0u) << (i + w);
          }
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) {
      const int64_t r = row + k * kDown;
      const bool written = r < rows && (!kAllStay || there);
      if (written) WriteGlobal(out + origin + r * columns, packs[k][0]);
      if constexpr (kPositive) {
        StorePositive<N>(terms.positive + (group * rows + r) * PositiveBytes(columns), column,
                         written, positive[k]);
      }
    }
  });
}

// after_stage: the previous kernel is a first stage, which may have let this one launch early.
template <typename T, typename Terms>
void MapRows(const CudaContext& ctx, const BatchNormSums& by, const Terms& terms, T* out,
             bool after_stage = false) {
  bool aligned = Aligned(out);
  for (const T* tensor : terms.tensors) aligned = aligned && Aligned(tensor);
  WithPacks<T>(by.columns, aligned, [&]<int N, int kAcross>() {
    const unsigned across = BlocksAcross<N, kAcross>(by.columns);
    constexpr int kRows = RowSteps<kAcross, kRowsAtOnce>::kRows;
    const int64_t at_once = kRowBlocks * int64_t{ctx.libraries.multiprocessors()};
    const int64_t down =
        std::clamp<int64_t>(at_once / (across * by.groups), 1, (by.rows + kRows - 1) / kRows);
    const dim3 grid(static_cast<unsigned>(down), across, static_cast<unsigned>(by.groups));
    const auto kernel = &RowsKernel<N, kAcross, T, Terms>;
    if (after_stage) {
      LaunchDependent(kernel, grid, dim3(kNormThreads), ctx, terms, by.rows, by.columns, out);
    } else {
      kernel<<<grid, kNormThreads, 0, ctx.stream>>>(terms, by.rows, by.columns, out);
      gpu::CheckLaunch(ctx.op.name.c_str());
    }
  });
}

}  // namespace plimsoll::ops
