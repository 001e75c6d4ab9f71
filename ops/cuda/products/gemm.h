// Matrix product on the GPU: the GEMM that all linear layers use. It is computed by the faster of
// cuBLASLt and, on Hopper, our own kernels (gemm_forms.h). gemm_problem.h says what is computed.
//
// Two runs give the same bits: algorithms with atomic additions are never used, and the algorithm
// for a product depends only on the problem, the GPU's model and cuBLAS's version
// (ops/cuda/products/gemm_choice.h).
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/libraries.h"
#include "graph/attributes.h"
#include "graph/dtype.h"
#include "ops/cuda/products/gemm_problem.h"

namespace plimsoll::ops {

// Whether an op's attribute tf32 (ops/linear/linear.h) applies to operands of this type.
bool UsesTf32(const graph::Attributes& attributes, graph::DType operands);

// Enqueues the product. Uses the algorithm that PrepareGemm found, or cuBLAS's own first choice if
// it was never called. Products that cuBLASLt does not support (k = 0, rows at odd addresses with
// an epilogue, codes other than rows of A times rows of B) run on a plain kernel of our own, which
// is slow.
void Gemm(gpu::Libraries& libraries, cudaStream_t stream, const GemmProblem& problem,
          const GemmBuffers& buffers);

// Chooses the algorithm for this problem, once per process: from the file of earlier choices, or by
// timing candidates on the given buffers. Overwrites D with the gaps between its rows, sums and the
// workspace. Must not be called during a capture.
void PrepareGemm(gpu::Libraries& libraries, cudaStream_t stream, const GemmProblem& problem,
                 const GemmBuffers& buffers);

}  // namespace plimsoll::ops
