// Gradients of weights in bf16 that are added to earlier ones, on Hopper: the product rounds in its
// epilogue (hopper_low_gradient.cuh).
#include <algorithm>

#include "ops/cuda/products/gemm_forms.h"
#include "ops/cuda/products/hopper_low_gradient.cuh"
#include "ops/cuda/products/low_gradient.h"

namespace plimsoll::ops {
namespace {

using Tiling =
    HopperTiling<__nv_bfloat16, 256, Contiguous::kOuter, Contiguous::kOuter, Warpgroups::kTogether>;

// Squares of tiles: with 66 clusters, eight rows of clusters by eight columns (WholeTiles).
constexpr int kGroup = 8;

int Clusters(int multiprocessors) {
  return std::min(multiprocessors / 2, SharedTiles::kMostClusters);
}

HopperProblem ProblemOf(const LowGradient& gradient) {
  const GemmProblem& p = gradient.problem;
  const GemmBuffers& buffers = gradient.buffers;
  return {{buffers.a, p.operands, p.k, p.m, p.lda},
          {buffers.b, p.operands, p.k, p.n, p.ldb},
          p.m,
          p.n,
          p.k};
}

bool Aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

}  // namespace

bool RoundsInEpilogue(const LowGradient& gradient, int multiprocessors) {
  const GemmProblem& p = gradient.problem;
  const GemmBuffers& buffers = gradient.buffers;
  const HopperProblem problem = ProblemOf(gradient);
  if (p.k == 0 || p.n % 8 != 0 || !Aligned(buffers.c) || !Aligned(buffers.d) ||
      p.k > int64_t{65535} * kHopperStep || !CanMap(problem.a) || !CanMap(problem.b)) {
    return false;
  }
  const GradientBytes<Tiling> bytes(
      MakeSharedTiles<Tiling>(problem, kGroup, Clusters(multiprocessors)));
  return bytes.shares + bytes.rows <= buffers.workspace_bytes;
}

void AddInEpilogue(cudaStream_t stream, const LowGradient& gradient, int multiprocessors) {
  HopperGradientArguments<__nv_bfloat16> arguments{};
  arguments.to = static_cast<__nv_bfloat16*>(gradient.buffers.d);
  arguments.acc = static_cast<const __nv_bfloat16*>(gradient.buffers.c);
  arguments.stride = gradient.problem.ldc;
  arguments.random = gradient.random;
  const HopperProblem problem = ProblemOf(gradient);
  const int clusters = Clusters(multiprocessors);
  LaunchHopperGradient<Tiling>(stream, problem, MakeSharedTiles<Tiling>(problem, kGroup, clusters),
                               StoreLowGradient{arguments},
                               static_cast<char*>(gradient.buffers.workspace), clusters);
}

}  // namespace plimsoll::ops
