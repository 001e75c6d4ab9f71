// Matrix product on the CPU: the GEMM that all linear layers use. Operands are float, double or
// 16-bit; products of 16-bit operands are accumulated in float32.
//
// Row-major with explicit strides. Nothing is allocated: packed panels are in a workspace that the
// caller supplies. The result's bits depend only on the shape, the flags and the operands, not on
// the number of threads, the choice of Gemm or GemmSerial, or the buffers' addresses: every element
// is one chain of fused multiply-adds over fixed blocks of k, on either instruction set.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/low_precision.h"
#include "base/thread_pool.h"

namespace plimsoll::cpu {

// C[m,n] = alpha · op(A)[m,k] · op(B)[k,n] + beta · C + bias[n]
//
// op(A) is A[m,k] with row stride lda, or, with trans_a, the transpose of A[k,m]; likewise for B.
// C must not overlap A, B, bias or the workspace. With beta = 0, C is written without being read.
// bias = nullptr adds no bias. k = 0 leaves beta · C + bias.
//
// A, B and C are the types in which the matrices are stored: all double, or each float, BFloat16 or
// Float16 (the combinations are listed below). 16-bit operands are widened, exactly, as they are
// packed. A 16-bit C is rounded once, at the end: the result is that of a float32 product with the
// widened operands, bias and old C, rounded to nearest even.
template <typename A, typename B = A, typename C = A>
struct GemmArgs {
  using Compute = std::conditional_t<std::is_same_v<C, double>, double, float>;

  bool trans_a = false;
  bool trans_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Compute alpha = 1;
  const A* a = nullptr;
  int64_t lda = 0;
  const B* b = nullptr;
  int64_t ldb = 0;
  Compute beta = 0;
  C* c = nullptr;
  int64_t ldc = 0;
  const C* bias = nullptr;
};

// Bytes of workspace for one product of this shape whose result is stored as C. It grows with the
// shape up to a fixed bound: about 7.5 MiB for float, and 13.5 MiB for 16-bit types, because the
// workspace holds their sums until they are rounded. It is the same for every instruction set and
// number of threads.
template <typename C>
int64_t GemmWorkspaceBytes(int64_t m, int64_t n, int64_t k);

extern template int64_t GemmWorkspaceBytes<float>(int64_t, int64_t, int64_t);
extern template int64_t GemmWorkspaceBytes<double>(int64_t, int64_t, int64_t);
extern template int64_t GemmWorkspaceBytes<BFloat16>(int64_t, int64_t, int64_t);
extern template int64_t GemmWorkspaceBytes<Float16>(int64_t, int64_t, int64_t);

// Runs on all threads of the pool. `workspace` is aligned to 64 bytes and at least
// GemmWorkspaceBytes long (InternalError otherwise); its content is arbitrary before and after.
template <typename A, typename B, typename C>
void Gemm(ThreadPool& pool, const GemmArgs<A, B, C>& args, void* workspace,
          int64_t workspace_bytes);

// Runs on the calling thread: for products inside a parallel loop, each with its own workspace.
template <typename A, typename B, typename C>
void GemmSerial(const GemmArgs<A, B, C>& args, void* workspace, int64_t workspace_bytes);

// The supported combinations: one type throughout, or 16-bit operands, one or both, into float.
extern template void Gemm(ThreadPool&, const GemmArgs<float>&, void*, int64_t);
extern template void Gemm(ThreadPool&, const GemmArgs<double>&, void*, int64_t);
extern template void Gemm(ThreadPool&, const GemmArgs<BFloat16>&, void*, int64_t);
extern template void Gemm(ThreadPool&, const GemmArgs<BFloat16, BFloat16, float>&, void*, int64_t);
extern template void Gemm(ThreadPool&, const GemmArgs<BFloat16, float, float>&, void*, int64_t);
extern template void Gemm(ThreadPool&, const GemmArgs<float, BFloat16, float>&, void*, int64_t);
extern template void Gemm(ThreadPool&, const GemmArgs<Float16>&, void*, int64_t);
extern template void Gemm(ThreadPool&, const GemmArgs<Float16, Float16, float>&, void*, int64_t);
extern template void Gemm(ThreadPool&, const GemmArgs<Float16, float, float>&, void*, int64_t);
extern template void Gemm(ThreadPool&, const GemmArgs<float, Float16, float>&, void*, int64_t);
extern template void GemmSerial(const GemmArgs<float>&, void*, int64_t);
extern template void GemmSerial(const GemmArgs<double>&, void*, int64_t);
extern template void GemmSerial(const GemmArgs<BFloat16>&, void*, int64_t);
extern template void GemmSerial(const GemmArgs<BFloat16, BFloat16, float>&, void*, int64_t);
extern template void GemmSerial(const GemmArgs<BFloat16, float, float>&, void*, int64_t);
extern template void GemmSerial(const GemmArgs<float, BFloat16, float>&, void*, int64_t);
extern template void GemmSerial(const GemmArgs<Float16>&, void*, int64_t);
extern template void GemmSerial(const GemmArgs<Float16, Float16, float>&, void*, int64_t);
extern template void GemmSerial(const GemmArgs<Float16, float, float>&, void*, int64_t);
extern template void GemmSerial(const GemmArgs<float, Float16, float>&, void*, int64_t);

// The instruction set of the kernels: AVX-512 where the processor has it, else AVX2. The
// environment variable PLIMSOLL_GEMM=avx2|avx512 overrides it; the two give the same bits.
enum class GemmKernel { kAvx2, kAvx512 };
bool GemmKernelSupported(GemmKernel kernel);
GemmKernel ActiveGemmKernel();
// For tests and measurements; must not be called while a product runs. Throws InternalError when
// the processor does not support the kernel.
void SetGemmKernel(GemmKernel kernel);

}  // namespace plimsoll::cpu
