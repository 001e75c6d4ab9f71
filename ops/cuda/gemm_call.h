// A matrix product (ops/cuda/gemm.h) in cuBLASLt's terms: descriptors, candidates, the call.
#pragma once

#include <cublasLt.h>

#include <string>
#include <vector>

#include "ops/cuda/gemm.h"

namespace plimsoll::ops {

// cuBLASLt is column-major: a row-major product is Dᵀ = op(B)ᵀ · op(A)ᵀ, so our B is its A.
class GemmCall {
 public:
  GemmCall(const GemmProblem& problem, const GemmBuffers& buffers);

  // What the choice of an algorithm depends on, in one word: its kind and size, and how
  // the buffers are aligned.
  const std::string& key() const { return key_; }

  // Deterministic algorithms, cuBLAS's favourite first, up to `most` or twice as many under an
  // epilogue; empty when it has none.
  std::vector<cublasLtMatmulAlgo_t> Candidates(cublasLtHandle_t handle, int most) const;

  // Can this algorithm compute it, deterministically and in the workspace?
  bool Accepts(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm) const;

  void Run(cublasLtHandle_t handle, cudaStream_t stream,
           const cublasLtMatmulAlgo_t& algorithm) const;

 private:
  std::vector<cublasLtMatmulAlgo_t> Heuristic(cublasLtHandle_t handle, int most) const;

  GemmProblem problem_;
  GemmBuffers buffers_;
  std::string key_;
  // cuBLASLt's opaque structs live here by value; its functions take them without const.
  mutable cublasLtMatmulDescOpaque_t operation_;
  mutable cublasLtMatrixLayoutOpaque_t a_, b_, c_;  // of our A, B, and C and D
};

}  // namespace plimsoll::ops
