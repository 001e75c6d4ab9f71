#include "ops/cuda/products/gemm.h"

#include "ops/cuda/products/gemm_call.h"
#include "ops/cuda/products/gemm_choice.h"
#include "ops/cuda/products/gemm_plain.h"

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
  if (problem.k == 0) return PlainGemm(stream, problem, buffers);
  if (RoundsBeforeBias(problem, buffers)) {
    GemmProblem rows = problem;
    rows.k = 0;
    PlainGemm(stream, rows, buffers);
    return Gemm(libraries, stream, AddedToBias(problem), AddedToBias(buffers));
  }
  const GemmCall call(problem, buffers);
  if (const auto algorithm = ChosenAlgorithm(libraries, call)) {
    call.Run(libraries.cublas_lt(), stream, *algorithm);
  } else {
    PlainGemm(stream, problem, buffers);
  }
}

void PrepareGemm(gpu::Libraries& libraries, cudaStream_t stream, const GemmProblem& problem,
                 const GemmBuffers& buffers) {
  if (IsEmpty(problem) || problem.k == 0) return;
  if (RoundsBeforeBias(problem, buffers)) {
    return PrepareGemm(libraries, stream, AddedToBias(problem), AddedToBias(buffers));
  }
  ChooseAlgorithm(libraries, stream, GemmCall(problem, buffers));
}

}  // namespace plimsoll::ops
