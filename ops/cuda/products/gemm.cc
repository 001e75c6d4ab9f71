#include "ops/cuda/products/gemm.h"

#include "ops/cuda/products/gemm_call.h"
#include "ops/cuda/products/gemm_choice.h"
#include "ops/cuda/products/gemm_forms.h"

namespace plimsoll::ops {
namespace {

bool IsEmpty(const GemmProblem& problem) {
  return problem.m == 0 || problem.n == 0 || problem.batch == 0;
}

}  // namespace

bool UsesTf32(const graph::Attributes& attributes, graph::DType operands) {
  return operands == graph::DType::kFloat32 && attributes.Has("tf32") && attributes.GetBool("tf32");
}

void Gemm(gpu::Libraries& libraries, cudaStream_t stream, const GemmProblem& problem,
          const GemmBuffers& buffers) {
  if (IsEmpty(problem)) return;
  for (const GemmPart& part : RoundedOnce(problem, buffers)) {
    if (part.problem.k == 0) {
      PlainGemm(stream, part.problem, part.buffers);
      continue;
    }
    const GemmCall call(part.problem, part.buffers);
    if (const auto algorithm = ChosenAlgorithm(libraries, call)) {
      call.Run(libraries.cublas_lt(), stream, *algorithm);
    } else {
      PlainGemm(stream, part.problem, part.buffers);
    }
  }
}

void PrepareGemm(gpu::Libraries& libraries, cudaStream_t stream, const GemmProblem& problem,
                 const GemmBuffers& buffers) {
  if (IsEmpty(problem)) return;
  for (const GemmPart& part : RoundedOnce(problem, buffers)) {
    if (part.problem.k > 0) {
      ChooseAlgorithm(libraries, stream, GemmCall(part.problem, part.buffers));
    }
  }
}

}  // namespace plimsoll::ops
