// Forms (gemm_forms.h) for products with 16-bit results on Hopper: y = x · weightᵀ + bias, and dx =
// dy · weight.
#include "gpu/check.h"
#include "ops/cuda/products/gemm_forms.h"
#include "ops/cuda/products/hopper_epilogues.cuh"
#include "ops/cuda/products/hopper_gemm.cuh"

namespace plimsoll::ops {
namespace {

MappedMatrix A(const GemmProblem& p, const GemmBuffers& buffers) {
  return {buffers.a, p.operands, p.m, p.k, p.lda};
}
template <Contiguous kB>
MappedMatrix B(const GemmProblem& p, const GemmBuffers& buffers) {
  if (kB == Contiguous::kInner) return {buffers.b, p.operands, p.n, p.k, p.ldb};
  return {buffers.b, p.operands, p.k, p.n, p.ldb};
}
MappedMatrix D(const GemmProblem& p, const GemmBuffers& buffers) {
  return {buffers.d, p.result, p.m, p.n, p.ldc};
}

template <Contiguous kB>
bool Takes(const GemmProblem& p, const GemmBuffers& buffers, int) {
  const bool biased = p.epilogue == GemmEpilogue::kBias;
  return !p.trans_a && p.trans_b == (kB == Contiguous::kInner) && p.result == p.operands &&
         p.batch == 1 && p.alpha == 1 && p.beta == 0 && p.n % 2 == 0 &&
         (p.epilogue == GemmEpilogue::kNone || biased) &&
         (!biased || reinterpret_cast<uintptr_t>(buffers.bias) % 4 == 0) && CanMap(A(p, buffers)) &&
         CanMap(B<kB>(p, buffers)) && CanMap(D(p, buffers));
}

// kGroup: see WholeTiles.
template <int kColumns, Contiguous kB, Warpgroups kGroups, int kGroup>
void Run(cudaStream_t stream, const GemmProblem& p, const GemmBuffers& buffers,
         int multiprocessors) {
  const auto run = [&]<typename T>() {
    using Tiling = HopperTiling<T, kColumns, Contiguous::kInner, kB, kGroups>;
    const StoreRounded<T> epilogue{
        MapMatrix(D(p, buffers), 64),
        p.epilogue == GemmEpilogue::kBias ? static_cast<const T*>(buffers.bias) : nullptr};
    const HopperProblem problem{A(p, buffers), B<kB>(p, buffers), p.m, p.n, p.k};
    LaunchHopperGemm<Tiling>(stream, problem, MakeWholeTiles<Tiling>(problem, kGroup), epilogue,
                             multiprocessors);
  };
  if (p.operands == graph::DType::kBFloat16) {
    run.template operator()<__nv_bfloat16>();
  } else {
    run.template operator()<__half>();
  }
}

template <int kColumns, Contiguous kB, Warpgroups kGroups, int kGroup>
constexpr GemmForm Form(const char* name) {
  return {name, &Takes<kB>, &Run<kColumns, kB, kGroups, kGroup>};
}

constexpr auto kInner = Contiguous::kInner, kOuter = Contiguous::kOuter;
constexpr auto kTogether = Warpgroups::kTogether;

constexpr GemmForm kForms[] = {
    Form<256, kInner, kTogether, 8>("128 x 256"),
    Form<256, kOuter, kTogether, 8>("128 x 256, rows of B"),
};

}  // namespace

std::span<const GemmForm> RoundedForms() { return kForms; }

bool HasHopperGemm() {
  static const bool has = [] {
    using Tiling = HopperTiling<__nv_bfloat16, 256, kInner, kInner, kTogether>;
    cudaFuncAttributes attributes{};
    gpu::Check(cudaFuncGetAttributes(
                   &attributes, &HopperGemmKernel<Tiling, StoreRounded<__nv_bfloat16>, WholeTiles>),
               "cudaFuncGetAttributes");
    return attributes.numRegs > 64;  // an empty kernel has hardly any
  }();
  return has;
}

}  // namespace plimsoll::ops
