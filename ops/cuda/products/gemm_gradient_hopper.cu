// Forms (gemm_forms.h) for gradients of weights on Hopper: dweight = dyᵀ · x in float32, together
// with the column sums of dy, computed in the same kernel or before it.
#include <algorithm>

#include "ops/cuda/column_sums.h"
#include "ops/cuda/products/gemm_forms.h"
#include "ops/cuda/products/hopper_gradient.cuh"

namespace plimsoll::ops {
namespace {

constexpr auto kOuter = Contiguous::kOuter;

template <typename T, int kColumns, bool kSharedB, bool kSums>
using Tiling = HopperTiling<T, kColumns, kOuter, kOuter, Warpgroups::kTogether, 2, kSharedB, kSums>;

constexpr int kGroup = 2;  // see WholeTiles

int Clusters(int multiprocessors) {
  return std::min(multiprocessors / 2, SharedTiles::kMostClusters);
}

HopperProblem ProblemOf(const GemmProblem& p, const GemmBuffers& buffers) {
  return {{buffers.a, p.type_a, p.k, p.m, p.lda},
          {buffers.b, p.type_b, p.k, p.n, p.ldb},
          p.m,
          p.n,
          p.k};
}

bool Even(const void* address) { return reinterpret_cast<uintptr_t>(address) % 8 == 0; }

template <int kColumns, bool kSharedB, bool kSums>
bool Takes(const GemmProblem& p, const GemmBuffers& buffers, int multiprocessors) {
  using Cut = Tiling<__nv_bfloat16, kColumns, kSharedB, kSums>;
  const HopperProblem problem = ProblemOf(p, buffers);
  const bool fits =
      p.trans_a && !p.trans_b && p.type_a == p.type_b && p.result == graph::DType::kFloat32 &&
      (p.epilogue == GemmEpilogue::kSums || (!kSums && p.epilogue == GemmEpilogue::kNone)) &&
      p.batch == 1 && p.alpha == 1 && (p.beta == 0 || p.beta == 1) && p.n % 2 == 0 &&
      p.ldc % 2 == 0 && Even(buffers.d) && Even(buffers.c) && p.k <= int64_t{65535} * kHopperStep &&
      CanMap(problem.a) && CanMap(problem.b);
  if (!fits) return false;
  const GradientBytes<Cut> bytes(MakeSharedTiles<Cut>(problem, kGroup, Clusters(multiprocessors)));
  return bytes.shares + bytes.rows <= buffers.workspace_bytes;
}

template <int kColumns, bool kSharedB, bool kSums>
void Run(cudaStream_t stream, const GemmProblem& p, const GemmBuffers& buffers,
         int multiprocessors) {
  const auto run = [&]<typename T>() {
    using Cut = Tiling<T, kColumns, kSharedB, kSums>;
    const HopperProblem problem = ProblemOf(p, buffers);
    const int clusters = Clusters(multiprocessors);
    HopperGradientArguments<float> arguments{};
    arguments.to = static_cast<float*>(buffers.d);
    arguments.acc = p.beta == 0 ? nullptr : static_cast<const float*>(buffers.c);
    arguments.stride = p.ldc;
    arguments.row_sums = buffers.sums;
    arguments.row_acc = buffers.old_sums;
    if (!kSums && p.epilogue == GemmEpilogue::kSums) {
      ColumnSums(stream, p.type_a, buffers.a, p.k, p.m, buffers.old_sums, buffers.sums,
                 buffers.workspace);
    }
    LaunchHopperGradient<Cut>(stream, problem, MakeSharedTiles<Cut>(problem, kGroup, clusters),
                              StoreGradient<kSums>{arguments},
                              static_cast<char*>(buffers.workspace), clusters);
  };
  if (p.type_a == graph::DType::kBFloat16) {
    run.template operator()<__nv_bfloat16>();
  } else {
    run.template operator()<__half>();
  }
}

template <int kColumns, bool kSharedB, bool kSums>
constexpr GemmForm Form(const char* name) {
  return {name, &Takes<kColumns, kSharedB, kSums>, &Run<kColumns, kSharedB, kSums>};
}

constexpr GemmForm kForms[] = {
    Form<256, true, false>("gradient 128 x 256"),
    Form<192, true, false>("gradient 128 x 192"),
    Form<192, true, true>("gradient and sums 128 x 192"),
    Form<160, false, false>("gradient 128 x 160"),
};

}  // namespace

std::span<const GemmForm> GradientForms() { return kForms; }

}  // namespace plimsoll::ops
