// Gradients of blockwise attention by mma.sync: bf16, fp16, and float32 with products in TF32 (the
// formulas are in attention_backward.cuh), by two kernels:
//
//   attention_mma_dq.cu     δ and dq
//   attention_mma_dkdv.cu   dk and dv
//
// With dropout, M the mask of 0 and 1 and c keep_scale, dv = c·(P∘M)ᵀ·dout and
// dS = c·P∘(M∘dP − δ/c). The factor c is applied at the ends of dq, dk and dv, and the products of
// dP are initialized with −δ/c.
//
// Scores and their gradients stay in registers; the next tiles are copied while the current ones
// are multiplied. Every gradient has one writer, or writers that add in turn, so its bits are
// always the same; therefore 7 products are computed instead of 5. (5, with dq added in turn by the
// thread blocks of all keys, took 10 % longer on an H200: the tensor cores are busy for 40 % of the
// time.)
//
// Bytes: k and v (q and dout) once for each thread block, mostly from L2.
#pragma once

#include <cstdint>
#include <type_traits>

#include "gpu/capability.h"
#include "gpu/check.h"
#include "ops/cuda/attention/attention_backward.cuh"
#include "ops/cuda/attention/attention_key_parts.cuh"
#include "ops/cuda/attention/attention_mma.cuh"
#include "ops/cuda/attention/attention_softcap.cuh"

namespace plimsoll::ops {

// The shared memory of a thread block, in bytes.
template <typename T>
int64_t MmaDqMemory(int64_t head);
template <typename T>
int64_t MmaDkdvMemory(int64_t head);

// Enqueues the kernels: dq first, since dk and dv read its δ.
template <typename T>
void LaunchMmaDq(const AttentionBackwardArguments<T>& a, const KeyParts& parts,
                 const ScoreSoftcap& softcap, cudaStream_t stream);
template <typename T>
void LaunchMmaDkdv(const AttentionBackwardArguments<T>& a, const KeyParts& parts,
                   const ScoreSoftcap& softcap, cudaStream_t stream);

// Calls launch.operator()<kWidth, kDropout, kRanges>(softcap) with what the arguments need.
template <typename T, typename Launch>
void DispatchMmaBackward(const AttentionBackwardArguments<T>& a, const ScoreSoftcap& softcap,
                         Launch launch) {
  const bool drops = a.dropout.rng != nullptr;
  DispatchMmaWidth(a.head, [&]<int kWidth>() {
    if (softcap.caps()) {
      return DispatchCapped(drops, softcap, [&]<bool kDropout, bool kRanges>(const auto& cap) {
        launch.template operator()<kWidth, kDropout, kRanges>(cap);
      });
    }
    DispatchDropoutAndRanges(drops, a.ranges.cuts(), [&]<bool kDropout, bool kRanges>() {
      launch.template operator()<kWidth, kDropout, kRanges>(NoSoftcap());
    });
  });
}

template <typename Shape, typename T, typename Kernel, typename Softcap>
void LaunchMma(Kernel kernel, const AttentionBackwardArguments<T>& a, const Softcap& softcap,
               const KeyParts& parts, int64_t blocks, int threads, const char* name,
               cudaStream_t stream) {
  gpu::AllowSharedMemory(kernel, Shape::kBytes);
  kernel<<<static_cast<unsigned>(blocks), threads, Shape::kBytes, stream>>>(a, softcap, parts);
  gpu::CheckLaunch(name);
}

}  // namespace plimsoll::ops
