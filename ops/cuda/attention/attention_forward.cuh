// The arguments of attention's kernels, and the kernels for any shape (attention_fma_forward.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/cuda/attention/attention_dropout.cuh"
#include "ops/cuda/attention/attention_ranges.cuh"
#include "ops/cuda/attention/attention_softcap.cuh"

namespace plimsoll::ops {

// Strides, in elements, of q and out [batch, queries, heads, hd] and of k and v [batch, kv_heads,
// keys, hd]. Heads of q and out are hd apart.
template <typename T>
struct AttentionForwardArguments {
  const T* q;
  const T* k;
  const T* v;
  T* out;
  float* lse;  // [batch, heads, queries]; nullptr if not requested
  // Is raised to the largest magnitude of out (ops/cuda/largest.cuh); nullptr if not requested.
  uint32_t* largest;
  int64_t batch, heads, kv_heads, head, queries, keys;
  int64_t q_batch, q_row;
  int64_t kv_batch, kv_head, kv_row;
  bool causal;
  // The position of the first query among the keys; nullptr: 0. Keys after the last query's
  // position are not read.
  const int32_t* position;
  // [batch]: the number of queries and keys that are not padding; nullptr: no padding. Padding is
  // neither read nor written. Not together with a position.
  const int32_t* lengths;
  float scale;
  bool packed;  // heads can be read 16 bytes at a time
  AttentionDropout dropout;
  AttentionRanges ranges;  // if they limit any query, attention is causal
};

// For float, __nv_bfloat16 and __half.
template <typename T>
void LaunchAttentionForward(const AttentionForwardArguments<T>& a, cudaStream_t stream,
                            const ScoreSoftcap& softcap);

}  // namespace plimsoll::ops
