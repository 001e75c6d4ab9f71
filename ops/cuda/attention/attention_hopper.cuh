// attention on the tensor cores of Hopper GPUs (compute capability 9.0): bf16 and fp16, heads up to
// 256 wide and multiples of 8.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/attention/attention_backward_ways.h"
#include "ops/cuda/attention/attention_backward.cuh"
#include "ops/cuda/attention/attention_forward.cuh"
#include "ops/cuda/attention/attention_softcap.cuh"

namespace plimsoll::ops {

// For calls with dropout, with ranges that limit queries, or with a soft cap; for heads up to 256
// wide, __nv_bfloat16 and __half. Queries, keys and values must be packed, one sequence after
// another, and have no position.
template <typename T>
void LaunchHopperForward(const AttentionForwardArguments<T>& a, int processors, cudaStream_t stream,
                         const ScoreSoftcap& softcap);

// For heads up to 128 wide, __nv_bfloat16 and __half. `delta` holds two floats for each query of a
// head. At most 65535 sequences and heads.
template <typename T>
void LaunchHopperBackward(const AttentionBackwardArguments<T>& a, cudaStream_t stream);

// The one-pass backward kernel, for heads up to 64 wide, with lengths or with ranges that limit
// queries, but not both. `scratch` has pass.Bytes(). At most 65535 sequences.
template <typename T>
void LaunchOnePassBackward(const AttentionBackwardArguments<T>& a, const OnePassAttention& pass,
                           void* scratch, int processors, cudaStream_t stream);

// The one-pass backward kernel for heads up to 128 wide, with lengths or with ranges that limit
// queries, but not both, and optionally a soft cap. `scratch` has wide.Bytes(), and the GPU needs
// the number of multiprocessors that CanRunWideOnePass checks. At most 65535 sequences.
template <typename T>
void LaunchWideBackward(const AttentionBackwardArguments<T>& a, const WideAttention& wide,
                        void* scratch, int processors, cudaStream_t stream,
                        const ScoreSoftcap& softcap);

// The backward kernels for heads 136 to 256 wide, optionally with a soft cap. `scratch` has
// widest.Bytes(). At most 65535 sequences.
template <typename T>
void LaunchWidestBackward(const AttentionBackwardArguments<T>& a, const WidestAttention& widest,
                          void* scratch, int processors, cudaStream_t stream,
                          const ScoreSoftcap& softcap);

}  // namespace plimsoll::ops
