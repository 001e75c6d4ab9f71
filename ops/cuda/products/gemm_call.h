// A matrix product (ops/cuda/products/gemm.h) in cuBLASLt's terms: descriptors, candidates, the
// call. For the epilogue kSums, a separate kernel computes the sums (ops/cuda/column_sums.h) before
// cuBLASLt's product; that is faster than cuBLASLt's own epilogue.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "ops/cuda/choices/result_bits.h"
#include "ops/cuda/products/gemm_problem.h"

namespace plimsoll::ops {

// cuBLASLt is column-major: a row-major product is Dᵀ = op(B)ᵀ · op(A)ᵀ, so our B is its A.
class GemmCall {
 public:
  GemmCall(const GemmProblem& problem, const GemmBuffers& buffers);

  // The properties on which the choice of an algorithm depends, in one word: kind and size, and the
  // buffers' alignment.
  const std::string& key() const { return key_; }

  // Deterministic algorithms, cuBLAS's favourite first: up to `most`, or twice as many with an
  // epilogue. Empty when cuBLASLt has no such algorithm.
  std::vector<cublasLtMatmulAlgo_t> Candidates(cublasLtHandle_t handle, int most) const;

  // Our own forms (gemm_forms.h), for large products, encoded as cuBLASLt's algorithms.
  std::vector<cublasLtMatmulAlgo_t> Forms() const;
  static cublasLtMatmulAlgo_t AlgorithmOf(int form);
  // The form that an algorithm encodes; nullopt for algorithms of cuBLASLt.
  static std::optional<int> FormOf(const cublasLtMatmulAlgo_t& algorithm);

  // FLOPs of the product.
  double flops() const;

  // How a Hopper kernel divides and orders the work, in cuBLASLt's numbers.
  struct Variation {
    uint32_t tile, cluster, order;
    auto operator<=>(const Variation&) const = default;
  };
  // The variation of a Hopper kernel; nullopt for other algorithms.
  static std::optional<Variation> VariationOf(const cublasLtMatmulAlgo_t& algorithm);
  // The algorithm in another variation; nullopt when cuBLASLt doesn't have it.
  std::optional<cublasLtMatmulAlgo_t> Varied(cublasLtHandle_t handle,
                                             const cublasLtMatmulAlgo_t& algorithm,
                                             const Variation& variation) const;

  // Whether this algorithm can compute the product, deterministically and within the workspace.
  bool Accepts(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm) const;

  // The memory that the product writes: D with the gaps between its rows, and the sums.
  std::vector<ResultMemory> Results() const;

  void Run(cublasLtHandle_t handle, cudaStream_t stream,
           const cublasLtMatmulAlgo_t& algorithm) const;

 private:
  std::vector<cublasLtMatmulAlgo_t> Heuristic(cublasLtHandle_t handle, int most) const;
  void MoveAddend(cudaStream_t stream) const;

  GemmProblem problem_;
  GemmBuffers buffers_;
  std::string key_;
  // cuBLASLt's opaque structs are held by value; its functions take them without const.
  mutable cublasLtMatmulDescOpaque_t operation_;
  mutable cublasLtMatrixLayoutOpaque_t a_, b_, c_;  // layouts of our A, of B, and of C and D
};

}  // namespace plimsoll::ops
