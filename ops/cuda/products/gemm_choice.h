// Chooses which of cuBLASLt's algorithms, or of our own forms (gemm_forms.h), computes a product.
// The same problem on the same GPU model with the same cuBLAS gets the same algorithm in every run,
// and so the same bits: measurements are stored (ops/cuda/choices/choice_store.h, as ChoiceOptions
// say).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpu/libraries.h"
#include "ops/cuda/products/gemm_call.h"

namespace plimsoll::ops {

// The algorithm that PrepareGemm chose for this problem, or else cuBLAS's first algorithm; nullopt
// if cuBLAS has none.
std::optional<cublasLtMatmulAlgo_t> ChosenAlgorithm(gpu::Libraries& libraries,
                                                    const GemmCall& call);

// Chooses as described at PrepareGemm (ops/cuda/products/gemm.h).
void ChooseAlgorithm(gpu::Libraries& libraries, cudaStream_t stream, const GemmCall& call);

// The text of an algorithm in the file of choices: its 64 bytes, cuBLASLt's or those of one of our
// own forms (gemm_call.h), as 128 hexadecimal digits.
std::string EncodeAlgorithm(const cublasLtMatmulAlgo_t& algorithm);
// The inverse; nullopt when the text is malformed.
std::optional<cublasLtMatmulAlgo_t> DecodeAlgorithm(std::string_view text);

}  // namespace plimsoll::ops
