#include "ops/cuda/products/low_gradient.h"

#include <algorithm>

#include "gpu/capability.h"
#include "ops/cuda/choices/choice_options.h"
#include "ops/cuda/products/gemm_forms.h"

namespace plimsoll::ops {
namespace {

// Calls body(first row, product) for each slice; the product goes to `wide`.
template <typename Body>
void ForSlices(const LowGradient& gradient, Body body) {
  const GemmProblem& p = gradient.problem;
  const int64_t most = LowGradientRows(p.m, p.n);
  const int64_t row_of_a = (p.trans_a ? 1 : p.lda) * graph::ByteSize(p.type_a);
  for (int64_t row = 0; row < p.m; row += most) {
    LowGradient slice = gradient;
    slice.problem.m = std::min(most, p.m - row);
    slice.problem.result = graph::DType::kFloat32;
    slice.problem.beta = 0;
    slice.buffers.a = static_cast<const char*>(gradient.buffers.a) + row * row_of_a;
    slice.buffers.c = nullptr;
    slice.buffers.d = gradient.wide;
    body(row, slice);
  }
}

// Whether one kernel is used. A gradient of only one slice hardly leaves the L2 cache, and is
// faster by cuBLASLt.
bool InOneKernel(const gpu::Libraries& libraries, const LowGradient& gradient) {
  const GemmProblem& p = gradient.problem;
  return CurrentChoiceOptions().gemm_forms && LowGradientRows(p.m, p.n) < p.m && gpu::OnHopper() &&
         RoundsInEpilogue(gradient, libraries.multiprocessors());
}

}  // namespace

void ComputeLowGradient(gpu::Libraries& libraries, cudaStream_t stream,
                        const LowGradient& gradient) {
  if (gradient.buffers.c == nullptr) {
    Gemm(libraries, stream, gradient.problem, gradient.buffers);
  } else if (InOneKernel(libraries, gradient)) {
    AddInEpilogue(stream, gradient, libraries.multiprocessors());
  } else {
    AddInSlices(libraries, stream, gradient);
  }
}

void PrepareLowGradient(gpu::Libraries& libraries, cudaStream_t stream,
                        const LowGradient& gradient) {
  if (gradient.buffers.c == nullptr) {
    PrepareGemm(libraries, stream, gradient.problem, gradient.buffers);
  } else if (!InOneKernel(libraries, gradient)) {
    PrepareSlices(libraries, stream, gradient);
  }
}

void AddInSlices(gpu::Libraries& libraries, cudaStream_t stream, const LowGradient& gradient) {
  const auto* const acc = static_cast<const __nv_bfloat16*>(gradient.buffers.c);
  auto* const to = static_cast<__nv_bfloat16*>(gradient.buffers.d);
  const int64_t n = gradient.problem.n;
  ForSlices(gradient, [&](int64_t row, const LowGradient& slice) {
    Gemm(libraries, stream, slice.problem, slice.buffers);
    RoundingStream random = gradient.random;
    random.first_block += row * n / 8;  // slices begin at multiples of 256 rows
    AddRounded(stream, random, slice.problem.m * n, acc + row * n,
               static_cast<const float*>(gradient.wide), to + row * n);
  });
}

void PrepareSlices(gpu::Libraries& libraries, cudaStream_t stream, const LowGradient& gradient) {
  const int64_t most = LowGradientRows(gradient.problem.m, gradient.problem.n);
  ForSlices(gradient, [&](int64_t row, const LowGradient& slice) {
    // All slices but the last have the same product.
    if (row > 0 && slice.problem.m == most) return;
    PrepareGemm(libraries, stream, slice.problem, slice.buffers);
  });
}

}  // namespace plimsoll::ops
