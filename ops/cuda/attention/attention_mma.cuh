// attention and attention_backward on the tensor cores of every GPU since compute capability 8.0,
// by mma.sync: bf16, fp16, and float32 with operands rounded to TF32; heads up to 256 wide and
// multiples of 8, with or without a causal mask, padding, grouped queries, dropout and a soft cap.
#pragma once

#include <cuda_runtime_api.h>

#include "base/compute_capability.h"
#include "ops/attention/attention_backward_ways.h"
#include "ops/cuda/attention/attention_backward.cuh"
#include "ops/cuda/attention/attention_forward.cuh"
#include "ops/cuda/attention/attention_softcap.cuh"

namespace plimsoll::ops {

// Calls body.template operator()<kWidth>() with the width to which these heads are padded.
template <typename Body>
auto DispatchMmaWidth(int64_t head, Body&& body) {
  if (head <= 64) return body.template operator()<64>();
  if (head <= 128) return body.template operator()<128>();
  if (head <= 192) return body.template operator()<192>();
  return body.template operator()<256>();
}

// Bytes of shared memory that a thread block needs. For float, __nv_bfloat16 and __half.
template <typename T>
int64_t MmaForwardMemory(int64_t head);
template <typename T>
int64_t MmaBackwardMemory(int64_t head);

// Whether the kernels below support heads of this width on this GPU.
template <typename T>
bool HasMmaAttention(int64_t head, ComputeCapability gpu) {
  const int64_t room = gpu.shared_bytes();
  return gpu.major >= 8 && head % 8 == 0 && head <= kMmaHead && MmaForwardMemory<T>(head) <= room &&
         MmaBackwardMemory<T>(head) <= room;
}

// `a.position` must be nullptr.
template <typename T>
void LaunchMmaForward(const AttentionForwardArguments<T>& a, cudaStream_t stream,
                      const ScoreSoftcap& softcap);

// `a.delta` begins scratch memory for δ and MmaKeyParts.
template <typename T>
void LaunchMmaBackward(const AttentionBackwardArguments<T>& a, cudaStream_t stream,
                       const ScoreSoftcap& softcap);

}  // namespace plimsoll::ops
