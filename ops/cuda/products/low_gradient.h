// A gradient of a weight in bf16: D[m,n] = acc + op(A)[m,k] · op(B)[k,n], rounded once.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/libraries.h"
#include "ops/cuda/products/gemm.h"
#include "ops/cuda/rounded_sum.h"
#include "ops/linear/cuda_gemm_workspace.h"

namespace plimsoll::ops {

struct LowGradient {
  // A product of bf16 or of codes, without an epilogue, with ldc = n and D in bf16. The product is
  // added to C with stochastic rounding. If C is nullptr, nothing is added, and the product is
  // rounded to nearest.
  GemmProblem problem;
  GemmBuffers buffers;
  RoundingStream random;
  void* wide = nullptr;  // LowGradientBytes(m, n); not read without C
};

// Enqueues the gradient. Without C, it is one product. With C, it is computed slice by slice: a
// product into `wide`, which stays in the L2 cache, and a kernel that adds the slice. On Hopper, Aᵀ
// · B of bf16 with more than one slice is one kernel, which adds and rounds in its epilogue. Bytes:
// A once, B once for each slice, C and D once.
void ComputeLowGradient(gpu::Libraries& libraries, cudaStream_t stream,
                        const LowGradient& gradient);

// Chooses the algorithms (PrepareGemm).
void PrepareLowGradient(gpu::Libraries& libraries, cudaStream_t stream,
                        const LowGradient& gradient);

// Add to C in slices, on any GPU; PrepareSlices chooses the algorithms.
void AddInSlices(gpu::Libraries& libraries, cudaStream_t stream, const LowGradient& gradient);
void PrepareSlices(gpu::Libraries& libraries, cudaStream_t stream, const LowGradient& gradient);
// RoundsInEpilogue: whether one kernel can add to C for these types, this size and alignment, on a
// Hopper GPU with that number of multiprocessors. AddInEpilogue: enqueues this kernel.
// (low_gradient_hopper.cu)
bool RoundsInEpilogue(const LowGradient& gradient, int multiprocessors);
void AddInEpilogue(cudaStream_t stream, const LowGradient& gradient, int multiprocessors);

}  // namespace plimsoll::ops
