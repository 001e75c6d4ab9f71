// Softmax cross-entropy of rows of logits; the gradient overwrites the logits:
//
//   lse = log Σ exp(logits),  loss = lse − logits[target],
//   logits ← factor · (exp(logits − lse) − [v = target])
//
// with one factor for all rows, or a factor for each row.
//
// With a soft cap c, c · tanh(logits / c) replaces logits wherever they are read, and the gradient
// gets the factor 1 − tanh². The stored logits are not capped.
//
// A row is read from memory once and written once; meanwhile it is in shared memory. As soon as a
// thread has written a pack, it starts to copy the next row's into its place: no other thread reads
// that place, so copies need no barrier. A row too long for a block's shared memory is shared by a
// cluster of 4 or 8 blocks, which exchange maximum and sum. A row too long for a cluster, or for a
// block on architectures before 9.0, is read twice, the second time from its end: what was read
// last is still in a cache.
//
// Threads keep a running maximum and a sum relative to it, a pack of 16 bytes at a time (Milakov,
// Gimelshein 2018, "Online normalizer calculation for softmax", algorithm 3). All arithmetic is in
// float, in an order that depends only on the row's length and type.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstdint>

#include "ops/cuda/cluster.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/exp2.cuh"
#include "ops/cuda/reduce.cuh"

namespace plimsoll::ops {

template <typename S>
struct LossRows {
  S* logits;       // [count] rows of `vocabulary`, at distances of `stride`
  int64_t stride;  // a multiple of a pack; gaps between rows may be overwritten
  int32_t vocabulary;
  int32_t count;
  int32_t slice;           // part of a row for each block of a cluster; consists of full packs
  const int32_t* targets;  // negative: ignored
  int32_t first;           // the token of the first column
  const float* lse_in;     // lse from the forward pass; nullptr if it is computed here
  float* lse_out;          // lse of each row; may be nullptr
  float* losses;           // loss of each row; may be nullptr
  const float* scale;      // factor = scale · dloss, or −dlogp of the row
  // nullptr if no gradient is requested; with factors by row: dlogp [count], and no scale
  const float* dloss;
};

// Σ exp2((x − max) · log2 e) over the values seen so far. Products that must not be fused with sums
// are __fmul_rn, so that all kernels, and all ops, give the same bits.
struct RunningSum {
  // Below every logit, but finite, because the difference of two infinities is NaN.
  float max = -1e38f;
  float sum = 0;

  static __device__ float Exp(float x) { return Exp2(x * kLog2E); }

  template <int N>
  __device__ void Add(const float (&x)[N]) {
    float largest = x[0];
#pragma unroll
    for (int i = 1; i < N; ++i) largest = fmaxf(largest, x[i]);
    if (largest > max) {
      sum = __fmul_rn(sum, Exp(max - largest));
      max = largest;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) sum += Exp(x[i] - max);
  }

  // Combines the sums of a warp; all lanes get the result.
  __device__ RunningSum OverWarp() const {
    const float largest = WarpMax(max);
    return {largest, WarpSum(__fmul_rn(sum, Exp(max - largest)))};
  }
};

// The function that kernels apply to logits that they load. Uncapped is empty: such kernels have no
// code for a cap.
struct UncappedLogits {
  static constexpr bool kCaps = false;
  __device__ float Logit(float x) const { return x; }
};
struct CappedLogits {
  static constexpr bool kCaps = true;
  __device__ float Logit(float x) const { return __fmul_rn(tanhf(__fdiv_rn(x, cap)), cap); }
  // 1 − tanh² for a capped logit.
  __device__ float Slope(float capped) const {
    const float t = __fdiv_rn(capped, cap);
    return __fmaf_rn(-t, t, 1.0f);
  }
  float cap;
};

// Loads the pack at `at`; elements from `end` on count as minus infinity.
template <int N, typename S, typename Cap>
__device__ void LoadLogits(const S* row, int32_t at, int32_t end, const Cap& cap, float (&x)[N]) {
  LoadPack<N>(row + at, x);
  if constexpr (Cap::kCaps) {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = cap.Logit(x[i]);
  }
  if (at + N > end) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (at + i >= end) x[i] = -INFINITY;
    }
  }
}

// kCluster blocks share a row. kStaged: each has shared memory for a slice of it, and there is a
// gradient; otherwise rows are read from memory whenever they are needed. kByRow: the factor is
// −dlogp of the row.
template <typename S, int kThreads, int kCluster, bool kStaged, typename Cap, bool kByRow>
__global__ __launch_bounds__(kThreads) void LossRowsKernel(const LossRows<S> rows, const Cap cap) {
  constexpr int kPack = kPackSize<S>;
  constexpr int kStep = kThreads * kPack;
  constexpr int kWarps = kThreads / kWarp;
  extern __shared__ __align__(16) unsigned char staged[];  // a slice
  // Two alternate, because a warp or block may be one row ahead of another that still reads.
  __shared__ float2 of_warps[2][kWarps];
  __shared__ float2 of_blocks[2];

  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  const int rank = kCluster > 1 ? ClusterRank() : 0;
  const int begin = rank * rows.slice;
  const int length = max(min(rows.slice, rows.vocabulary - begin), 0);
  // This thread's packs: the first, how many, the last.
  const int start = thread * kPack;
  const int rounds = max(length - start + kStep - 1, 0) / kStep;
  const int last = start + (rounds - 1) * kStep;
  const int step = static_cast<int>(gridDim.x) / kCluster;
  S* const buffer = reinterpret_cast<S*>(staged);
  float factor = 0;
  if constexpr (!kByRow) factor = rows.dloss != nullptr ? *rows.scale * *rows.dloss : 0.0f;

  int row = static_cast<int>(blockIdx.x) / kCluster;
  S* global = rows.logits + row * rows.stride + begin;
  const auto copy = [&](const S* from, int at) {
    __pipeline_memcpy_async(buffer + at, from + at, sizeof(Pack<S, kPack>));
  };
  if constexpr (kStaged) {
    for (int at = start; at < length; at += kStep) copy(global, at);
  }
  for (int turn = 0; row < rows.count; row += step, turn ^= 1) {
    const S* const next = global + step * rows.stride;
    const S* const slice = kStaged ? buffer : global;
    const int target = rows.targets[row];
    const int own_target = target - rows.first - begin;  // within the slice, if that contains it
    // Whether this thread has the pack with the target.
    const bool mine =
        own_target >= 0 && own_target < length && own_target / kPack % kThreads == thread;
    if constexpr (kStaged) {
      __pipeline_commit();
      __pipeline_wait_prior(0);
    }

    float lse;
    if (rows.lse_in != nullptr) {
      lse = rows.lse_in[row];
    } else {
      RunningSum sum;
#pragma unroll 2
      for (int at = start; at < length; at += kStep) {
        float x[kPack];
        LoadLogits<kPack>(slice, at, length, cap, x);
        sum.Add(x);
      }
      const float picked = mine ? cap.Logit(ToFloat(slice[own_target])) : 0.0f;
      sum = sum.OverWarp();
      if (lane == 0) of_warps[turn][thread / kWarp] = {sum.max, sum.sum};
      __syncthreads();
      RunningSum total;
      if (lane < kWarps) total = {of_warps[turn][lane].x, of_warps[turn][lane].y};
      total = total.OverWarp();
      if constexpr (kCluster > 1) {
        if (thread == 0) of_blocks[turn] = {total.max, total.sum};
        SyncCluster();
        RunningSum all;
        if (lane < kCluster) {
          const float2 other = LoadFromCluster(&of_blocks[turn], lane);
          all = {other.x, other.y};
        }
        total = all.OverWarp();
      }
      lse = total.max + logf(total.sum);
      const bool first = thread == 0 && rank == 0;
      if (first && rows.lse_out != nullptr) rows.lse_out[row] = lse;
      if (rows.losses != nullptr) {
        if (mine) rows.losses[row] = lse - picked;
        // A target outside the vocabulary gives a loss of NaN.
        if (first && target < 0) rows.losses[row] = 0;
        if (first && target >= rows.vocabulary) rows.losses[row] = NAN;
      }
    }

    if (rows.dloss != nullptr) {
      if constexpr (kByRow) factor = -rows.dloss[row];
      for (int round = 0; round < rounds; ++round) {
        const int at = kStaged ? start + round * kStep : last - round * kStep;
        float x[kPack];
        if (target < 0) {
#pragma unroll
          for (int i = 0; i < kPack; ++i) x[i] = 0;
        } else {
          LoadLogits<kPack>(slice, at, length, cap, x);
          [[maybe_unused]] float slope[kPack];
          if constexpr (Cap::kCaps) {
#pragma unroll
            for (int i = 0; i < kPack; ++i) slope[i] = cap.Slope(x[i]);
          }
#pragma unroll
          for (int i = 0; i < kPack; ++i) x[i] = __fmul_rn(RunningSum::Exp(x[i] - lse), factor);
          if (own_target >= at && own_target < at + kPack) {
#pragma unroll
            for (int i = 0; i < kPack; ++i) {
              if (own_target == at + i) x[i] -= factor;
            }
          }
          if constexpr (Cap::kCaps) {
#pragma unroll
            for (int i = 0; i < kPack; ++i) {
              // Elements beyond the row are not multiplied.
              x[i] = at + i < length ? __fmul_rn(x[i], slope[i]) : 0.0f;
            }
          }
        }
        StorePack(global + at, x);
        if (kStaged && row + step < rows.count) copy(next, at);
      }
    }
    global += step * rows.stride;
  }
  if constexpr (kCluster > 1) SyncCluster();  // other blocks may still read of_blocks
}

}  // namespace plimsoll::ops
