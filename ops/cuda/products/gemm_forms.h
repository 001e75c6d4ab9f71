// Our own matrix products. On Hopper GPUs (hopper_gemm.cuh) there are forms, which compete with
// cuBLASLt's algorithms for a problem (gemm_choice.h); a form is one way to divide and order a
// product. For all other problems there is a plain product.
#pragma once

#include <cuda_runtime_api.h>

#include <span>
#include <vector>

#include "ops/cuda/products/gemm_problem.h"

namespace plimsoll::ops {

struct GemmForm {
  const char* name;
  // Whether the form can compute this problem, on a GPU with that number of multiprocessors.
  bool (*takes)(const GemmProblem& problem, const GemmBuffers& buffers, int multiprocessors);
  void (*run)(cudaStream_t stream, const GemmProblem& problem, const GemmBuffers& buffers,
              int multiprocessors);
};

// All forms. The file of measurements refers to their order: add new ones at the end.
std::span<const GemmForm> GemmForms();

// The numbers of the forms that can compute the problem on the current device; empty without a
// Hopper GPU or without code for it.
std::vector<int> FormsFor(const GemmProblem& problem, const GemmBuffers& buffers);
bool FormTakes(int form, const GemmProblem& problem, const GemmBuffers& buffers);

void RunForm(int form, cudaStream_t stream, const GemmProblem& problem, const GemmBuffers& buffers);

// Forms for 16-bit results, y = x · weightᵀ and its dx; and for gradients of weights.
// (gemm_*_hopper.cu)
std::span<const GemmForm> RoundedForms();
std::span<const GemmForm> GradientForms();

// The product without a library, for the problems that cuBLASLt does not support: simple, correct
// for any shape, stride and alignment, and slow. Products of codes run here on GPUs without matrix
// units for them, which are those before compute capability 8.9. (gemm_plain.cu)
void PlainGemm(cudaStream_t stream, const GemmProblem& problem, const GemmBuffers& buffers);

}  // namespace plimsoll::ops
