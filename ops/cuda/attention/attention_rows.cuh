// The floats that the one-pass kernels for attention's gradients, and those for the widest heads,
// read for each query of a head: lse·log₂e, and δ = Σ dout∘out divided by dropout's keep_scale.
// Those of a tile's queries are adjacent: [batch, heads, tiles, 2, 64] floats; padding gets zeros.
//
// A thread reads 16 bytes of out and of dout; kLanes threads share a query; a thread block has
// 256 / kLanes queries, one head after another. Bytes: out, dout and lse once, 8 for each query.
#pragma once

#include "ops/cuda/attention/attention_backward.cuh"
#include "ops/cuda/exp2.cuh"
#include "ops/cuda/wgmma.cuh"

namespace plimsoll::ops {

// Computes the floats, and clears `count` counters.
template <typename T, int kLanes>
__global__ __launch_bounds__(256, 4) void AttentionRowsKernel(
    const __grid_constant__ AttentionBackwardArguments<T> a, float* rows, int tiles, int* counters,
    int count) {
  constexpr int kTile = 64, kAtOnce = 2, kRows = 256 / kLanes;
  const int b = blockIdx.y, row = static_cast<int>(blockIdx.x) * kRows + threadIdx.x / kLanes;
  const int column = threadIdx.x % kLanes * 8;
  const int heads = static_cast<int>(a.heads);
  const bool there = row < a.Length(b) && column < a.head;
  const int64_t from = a.Out(b, there ? row : 0, 0) + (there ? column : 0);
  const float* const lse = a.lse + int64_t{b} * heads * a.sequence + (there ? row : 0);
  const int64_t tile = int64_t{b} * heads * tiles + row / kTile;  // tile of the first head
  float* const to = rows + tile * 2 * kTile + row % kTile;
  for (int first = 0; first < heads; first += kAtOnce) {
    float out[kAtOnce][8] = {}, dout[kAtOnce][8] = {};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (!there || first + i >= heads) continue;
      LoadPack(a.out + from + (first + i) * a.head, out[i]);
      LoadPack(a.dout + from + (first + i) * a.head, dout[i]);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      float sum = 0;
#pragma unroll
      for (int e = 0; e < 8; ++e) sum = fmaf(out[i][e], dout[i][e], sum);
#pragma unroll
      for (int m = 1; m < kLanes; m *= 2) sum += __shfl_xor_sync(~0u, sum, m);
      const int64_t h = first + i;
      if (column != 0 || h >= heads) continue;
      to[h * tiles * 2 * kTile] = there ? lse[h * a.sequence] * kLog2E : 0.0f;
      to[h * tiles * 2 * kTile + kTile] = sum / a.dropout.keep_scale;
    }
  }
  const int blocks = gridDim.x * gridDim.y, block = b * gridDim.x + blockIdx.x;
  for (int i = block * 256 + threadIdx.x; i < count; i += 256 * blocks) counters[i] = 0;
}

// `rows` has `tiles` tiles for each head.
template <int kLanes, typename T>
void LaunchAttentionRows(const AttentionBackwardArguments<T>& a, float* rows, int64_t tiles,
                         int* counters, int64_t count, cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>(tiles * kLanes / 4), static_cast<unsigned>(a.batch));
  AttentionRowsKernel<T, kLanes><<<blocks, 256, 0, stream>>>(a, rows, static_cast<int>(tiles),
                                                             counters, static_cast<int>(count));
  gpu::CheckLaunch("attention_backward: lse and delta");
}

}  // namespace plimsoll::ops
