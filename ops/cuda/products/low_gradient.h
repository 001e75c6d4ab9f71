// A gradient of a weight in bf16: D[m,n] = acc + op(A)[m,k] · op(B)[k,n], rounded once.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/libraries.h"
#include "ops/cuda/products/gemm.h"
#include "ops/cuda/rounded_sum.h"
#include "ops/linear/cuda_gemm_workspace.h"

namespace plimsoll::ops {

struct LowGradient {
  // A product of bf16 or of codes, without an epilogue, and ldc = n; its D is bf16. C is what it is
  // added to, rounding stochastically; nullptr: nothing, and it is rounded to the nearest.
  GemmProblem problem;
  GemmBuffers buffers;
  RoundingStream random;
  void* wide = nullptr;  // LowGradientBytes(m, n); not read without C
};

// Enqueues it. Without C, as one product. With C, slice by slice: a product into `wide`, which
// stays in the L2 cache, and a kernel that adds the slice; more than a slice of Aᵀ · B of bf16 on
// Hopper in one kernel, which adds and rounds in its epilogue. Bytes: A once, B once for each
// slice, C and D once.
void ComputeLowGradient(gpu::Libraries& libraries, cudaStream_t stream,
                        const LowGradient& gradient);

// Chooses the algorithms (PrepareGemm).
void PrepareLowGradient(gpu::Libraries& libraries, cudaStream_t stream,
                        const LowGradient& gradient);

// The two ways to add to C. In slices: on any GPU.
void AddInSlices(gpu::Libraries& libraries, cudaStream_t stream, const LowGradient& gradient);
void PrepareSlices(gpu::Libraries& libraries, cudaStream_t stream, const LowGradient& gradient);
// In one kernel, on a Hopper GPU with that many multiprocessors: whether there is one for these
// types, this size and alignment; and enqueues it. (low_gradient_hopper.cu)
bool RoundsInEpilogue(const LowGradient& gradient, int multiprocessors);
void AddInEpilogue(cudaStream_t stream, const LowGradient& gradient, int multiprocessors);

}  // namespace plimsoll::ops
