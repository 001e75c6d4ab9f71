// A matrix product (ops/cuda/products/gemm.h) in cuBLASLt's terms: descriptors, candidates, the
// call. Under the epilogue kSums cuBLASLt's product follows a kernel of its own for the sums
// (ops/cuda/column_sums.h), which is faster than what cuBLASLt has for that.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "ops/cuda/products/gemm.h"

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

  // Our own forms (gemm_forms.h), for large products, in the place of cuBLASLt's algorithms.
  std::vector<cublasLtMatmulAlgo_t> Forms() const;
  static cublasLtMatmulAlgo_t AlgorithmOf(int form);
  // Nothing for cuBLASLt's.
  static std::optional<int> FormOf(const cublasLtMatmulAlgo_t& algorithm);

  // Floating-point operations of the product.
  double flops() const;

  // How a Hopper kernel is cut and ordered, in cuBLASLt's numbers.
  struct Variation {
    uint32_t tile, cluster, order;
    auto operator<=>(const Variation&) const = default;
  };
  // Nothing for algorithms of other kinds.
  static std::optional<Variation> VariationOf(const cublasLtMatmulAlgo_t& algorithm);
  // The algorithm in another variation; nothing when cuBLASLt has none such.
  std::optional<cublasLtMatmulAlgo_t> Varied(cublasLtHandle_t handle,
                                             const cublasLtMatmulAlgo_t& algorithm,
                                             const Variation& variation) const;

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
