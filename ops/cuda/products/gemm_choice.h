// Which of cuBLASLt's algorithms, or which form of our own (gemm_forms.h), computes a product. The
// same problem on the same GPU model with the same cuBLAS gets the same algorithm in every run, and
// so the same bits: what was measured once is kept in a file of the user's cache folder.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ops/cuda/products/gemm_call.h"

namespace plimsoll::ops {

struct GemmChoiceOptions {
  // False: cuBLAS's own first choice, nothing is timed and no file is read or written. Not given:
  // false when the environment variable PLIMSOLL_CUDA_GEMM says "first", else true.
  std::optional<bool> measure;
  // Of the file; empty: none. Not given: ${XDG_CACHE_HOME:-~/.cache}/plimsoll.
  std::optional<std::string> folder;
  // False: cuBLASLt's algorithms alone.
  bool forms = true;
  // Hears of a file that can't be used; it is made anew. Empty: standard error.
  std::function<void(const std::string&)> warn;
};

// For the whole process; forgets earlier choices. Not while a product is being enqueued.
void SetGemmChoice(GemmChoiceOptions options);

// What PrepareGemm chose for this problem, else cuBLAS's first. Nothing: it has none.
std::optional<cublasLtMatmulAlgo_t> ChosenAlgorithm(gpu::Libraries& libraries,
                                                    const GemmCall& call);

// Chooses as PrepareGemm (ops/cuda/products/gemm.h) says.
void ChooseAlgorithm(gpu::Libraries& libraries, cudaStream_t stream, const GemmCall& call);

}  // namespace plimsoll::ops
