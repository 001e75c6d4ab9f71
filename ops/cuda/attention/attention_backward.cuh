// Gradients of blockwise attention (Dao 2023, "FlashAttention-2", algorithm 2). With
// P = exp(S − lse), S = q·kᵀ·scale:
//
//   dv = (P∘keep)ᵀ·dout     dP = (dout·vᵀ)∘keep     dS = P∘(dP − δ)·scale,  δ = Σ dout∘out
//   dq = dS·k               dk = dSᵀ·q
//
// The arguments of the kernels, and the kernels for any shape (attention_fma_backward.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/cuda/attention/attention_dropout.cuh"
#include "ops/cuda/attention/attention_ranges.cuh"
#include "ops/cuda/attention/attention_softcap.cuh"
#include "ops/cuda/attention/attention_tile.cuh"

namespace plimsoll::ops {

// qkv and dqkv are packed as described in ops/attention/attention.h.
template <typename T>
struct AttentionBackwardArguments {
  const T* qkv;
  const T* out;
  const T* dout;
  const float* lse;  // [batch, heads, sequence]
  float* delta;      // [batch, heads, sequence]: scratch
  T* dqkv;
  // Is raised to the largest magnitude of dqkv (ops/cuda/largest.cuh); nullptr if not requested.
  uint32_t* largest;
  int64_t batch, heads, kv_heads, head, sequence;
  bool causal;
  float scale;
  bool packed;               // heads can be read 16 bytes at a time
  AttentionDropout dropout;  // its keep_scale is 1 without dropout
  // [batch]: the number of tokens that are not padding. Values in padding don't matter; its
  // gradients become zero or stay unchanged. nullptr means no padding.
  const int32_t* lengths;
  AttentionRanges ranges;  // if they limit any query, attention is causal

  __device__ int64_t Length(int64_t b) const {
    return lengths == nullptr ? sequence : min(sequence, int64_t{lengths[b]});
  }
  __host__ __device__ int64_t Row() const { return (heads + 2 * kv_heads) * head; }
  // The index in qkv or dqkv of the first element of head `h`; heads are query heads, then key
  // heads, then value heads.
  __device__ int64_t Packed(int64_t b, int64_t i, int64_t h) const {
    return (b * sequence + i) * Row() + h * head;
  }
  __device__ int64_t Out(int64_t b, int64_t i, int64_t h) const {
    return ((b * sequence + i) * heads + h) * head;
  }
  __device__ TileRows<T> Rows(const T* data, int64_t stride, int64_t b, int64_t first) const {
    const int64_t count = Length(b) - first < kTile ? Length(b) - first : kTile;
    return {data, stride, static_cast<int>(count), static_cast<int>(head), packed};
  }
  __device__ TileRows<T> PackedRows(int64_t b, int64_t first, int64_t h) const {
    return Rows(qkv + Packed(b, first, h), Row(), b, first);
  }
  __device__ TileRows<T> DoutRows(int64_t b, int64_t first, int64_t h) const {
    return Rows(dout + Out(b, first, h), heads * head, b, first);
  }
};

// For float, __nv_bfloat16 and __half.
template <typename T>
void LaunchAttentionBackward(const AttentionBackwardArguments<T>& a, cudaStream_t stream,
                             const ScoreSoftcap& softcap);

}  // namespace plimsoll::ops
