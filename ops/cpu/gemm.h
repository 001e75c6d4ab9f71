// Matrix product on the CPU for float and double: the one GEMM under every linear layer.
//
// Row-major with explicit strides. Nothing is allocated: packed panels live in a workspace that the
// caller supplies. The result's bits depend on the shape, the flags and the operands alone, not on
// the number of threads, not on Gemm against GemmSerial, not on where the buffers lie: every
// element is one chain of fused multiply-adds over fixed blocks of k, on either instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"

namespace plimsoll::cpu {

// C[m,n] = alpha · op(A)[m,k] · op(B)[k,n] + beta · C + bias[n]
//
// op(A) is A[m,k] with row stride lda, or, with trans_a, the transpose of A[k,m]; B alike.
// C must not overlap A, B, bias or the workspace. With beta = 0, C is written without being read.
// bias = nullptr adds none. k = 0 leaves beta · C + bias.
template <typename T>
struct GemmArgs {
  bool trans_a = false;
  bool trans_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  T alpha = 1;
  const T* a = nullptr;
  int64_t lda = 0;
  const T* b = nullptr;
  int64_t ldb = 0;
  T beta = 0;
  T* c = nullptr;
  int64_t ldc = 0;
  const T* bias = nullptr;
};

// Bytes of workspace for one product of this shape; grows with the shape up to a fixed bound
// (about 10 MiB for float). The same for every instruction set and number of threads.
int64_t GemmWorkspaceBytes(int64_t m, int64_t n, int64_t k, size_t element_size, int threads);

// On all threads of the pool. `workspace` is aligned to 64 bytes and at least GemmWorkspaceBytes
// long (InternalError otherwise); its content is arbitrary before and after.
template <typename T>
void Gemm(ThreadPool& pool, const GemmArgs<T>& args, void* workspace, int64_t workspace_bytes);

// On the calling thread: for products inside a parallel loop, each with its own workspace.
template <typename T>
void GemmSerial(const GemmArgs<T>& args, void* workspace, int64_t workspace_bytes);

extern template void Gemm(ThreadPool&, const GemmArgs<float>&, void*, int64_t);
extern template void Gemm(ThreadPool&, const GemmArgs<double>&, void*, int64_t);
extern template void GemmSerial(const GemmArgs<float>&, void*, int64_t);
extern template void GemmSerial(const GemmArgs<double>&, void*, int64_t);

// The instruction set of the kernels: AVX-512 where the processor has it, else AVX2. The
// environment variable PLIMSOLL_GEMM=avx2|avx512 overrides it; the two give the same bits.
enum class GemmKernel { kAvx2, kAvx512 };
bool GemmKernelSupported(GemmKernel kernel);
GemmKernel ActiveGemmKernel();
// For tests and measurements; not while a product runs. InternalError when not supported.
void SetGemmKernel(GemmKernel kernel);

}  // namespace plimsoll::cpu
