// Which of cuBLASLt's algorithms, or of our own forms (gemm_forms.h), computes a product. The same
// problem on the same GPU model with the same cuBLAS gets the same algorithm in every run, and so
// the same bits: measurements are kept in a file in the user's cache folder.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ops/cuda/products/gemm_call.h"

namespace plimsoll::ops {

struct GemmChoiceOptions {
  // False: takes cuBLAS's own first choice; nothing is timed and no file is read or written.
  // nullopt: false if the environment variable PLIMSOLL_CUDA_GEMM is "first", else true.
  std::optional<bool> measure;
  // The folder of the file; empty: no file. nullopt: ${XDG_CACHE_HOME:-~/.cache}/plimsoll.
  std::optional<std::string> folder;
  // False: only cuBLASLt's algorithms.
  bool forms = true;
  // Called about a file that can't be used and is replaced. Empty: prints to standard error.
  std::function<void(const std::string&)> warn;
};

// Applies to the whole process; forgets earlier choices. Not while a product is being enqueued.
void SetGemmChoice(GemmChoiceOptions options);

// The algorithm that PrepareGemm chose for this problem, else cuBLAS's first; nullopt: it has none.
std::optional<cublasLtMatmulAlgo_t> ChosenAlgorithm(gpu::Libraries& libraries,
                                                    const GemmCall& call);

// Chooses as described at PrepareGemm (ops/cuda/products/gemm.h).
void ChooseAlgorithm(gpu::Libraries& libraries, cudaStream_t stream, const GemmCall& call);

}  // namespace plimsoll::ops
