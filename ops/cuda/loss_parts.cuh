// The softmax of rows of a vocabulary that is sharded among ranks (formulas in
// linear_cross_entropy.h): each rank's part, and the combined result.
//
//   parts     m_k, Σ exp(logits − m_k), logits[target]: a block for each row, read once
//   m         all-reduce of maxima
//   scaled    Σ exp(logits − m)
//   sums      all-reduce of sums and of targets' logits
//   finish    lse and losses, the same bits on all ranks; loss_rows.cuh computes gradients from lse
//
// Bytes in addition to those of loss_rows.cuh: rows are read once more.
#pragma once

#include <cstdint>

#include "gpu/check.h"
#include "ops/collectives/vocabulary_shard.h"
#include "ops/cuda/loss_rows.cuh"

namespace plimsoll::ops {

// The arguments for a chunk of rows.
struct LossParts {
  int64_t count;
  const int32_t* targets;
  int64_t begin, whole;  // this rank's first token, and the size of the full vocabulary
  // The numbers of the rows, kLossPartFloats for each:
  float* own_maxima;  // [count]: m_k
  float* maxima;      // [count]: m, and at the end lse
  float* sums;        // [2,count]: of exponentials, and logits of targets
  float* losses;      // loss of each row; may be nullptr
  float* lse;         // lse of each row; may be nullptr
};

constexpr int kPartThreads = 512;

template <typename S, typename Cap>
__global__ __launch_bounds__(kPartThreads) void LossPartsKernel(const LossRows<S> rows,
                                                                const LossParts parts,
                                                                const Cap cap) {
  constexpr int kPack = kPackSize<S>;
  constexpr int kWarps = kPartThreads / kWarp;
  __shared__ float2 of_warps[kWarps];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  const int64_t row = blockIdx.x;
  const S* const logits = rows.logits + row * rows.stride;
  RunningSum sum;
#pragma unroll 2
  for (int at = thread * kPack; at < rows.vocabulary; at += kPartThreads * kPack) {
    float x[kPack];
    LoadLogits<kPack>(logits, at, rows.vocabulary, cap, x);
    sum.Add(x);
  }
  sum = sum.OverWarp();
  if (lane == 0) of_warps[thread / kWarp] = {sum.max, sum.sum};
  __syncthreads();
  if (thread >= kWarp) return;
  RunningSum total;
  if (lane < kWarps) total = {of_warps[lane].x, of_warps[lane].y};
  total = total.OverWarp();
  if (thread != 0) return;
  const int64_t target = parts.targets[row] - parts.begin;
  const bool mine = target >= 0 && target < rows.vocabulary;
  parts.own_maxima[row] = parts.maxima[row] = total.max;
  parts.sums[row] = total.sum;
  parts.sums[parts.count + row] = mine ? cap.Logit(ToFloat(logits[target])) : 0.0f;
}

constexpr int kRowThreads = 256;

static __global__ __launch_bounds__(kRowThreads) void ScaleLossPartsKernel(const LossParts parts) {
  const int64_t row = int64_t{blockIdx.x} * kRowThreads + threadIdx.x;
  if (row >= parts.count) return;
  parts.sums[row] *= RunningSum::Exp(parts.own_maxima[row] - parts.maxima[row]);
}

static __global__ __launch_bounds__(kRowThreads) void FinishLossPartsKernel(const LossParts parts) {
  const int64_t row = int64_t{blockIdx.x} * kRowThreads + threadIdx.x;
  if (row >= parts.count) return;
  const float lse = parts.maxima[row] + logf(parts.sums[row]);
  const int32_t target = parts.targets[row];
  parts.maxima[row] = lse;
  if (parts.lse != nullptr) parts.lse[row] = lse;
  if (parts.losses == nullptr) return;
  // A target outside the vocabulary gives a loss of NaN.
  const float loss = target < parts.whole ? lse - parts.sums[parts.count + row] : NAN;
  parts.losses[row] = target < 0 ? 0.0f : loss;
}

// Computes everything except the gradients.
template <typename S, typename Cap>
void ComputeLossParts(const LossRows<S>& rows, const LossParts& parts, const Cap& cap,
                      Communicator* ranks, cudaStream_t stream) {
  constexpr graph::DType kFloat = graph::DType::kFloat32;
  const auto blocks = static_cast<unsigned>((parts.count + kRowThreads - 1) / kRowThreads);
  LossPartsKernel<<<static_cast<unsigned>(parts.count), kPartThreads, 0, stream>>>(rows, parts,
                                                                                   cap);
  gpu::CheckLaunch("loss parts");
  if (ranks != nullptr) {
    ranks->AllReduce(parts.own_maxima, parts.maxima, parts.count, kFloat, Reduction::kMax, stream);
    ScaleLossPartsKernel<<<blocks, kRowThreads, 0, stream>>>(parts);
    gpu::CheckLaunch("loss parts, scaled");
    ranks->AllReduce(parts.sums, parts.sums, 2 * parts.count, kFloat, Reduction::kSum, stream);
  }
  FinishLossPartsKernel<<<blocks, kRowThreads, 0, stream>>>(parts);
  gpu::CheckLaunch("loss of parts");
}

}  // namespace plimsoll::ops
