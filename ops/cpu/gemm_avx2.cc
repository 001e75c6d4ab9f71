// GEMM's kernels for AVX2 and FMA, the project's baseline.
#include "ops/cpu/gemm_kernels_impl.h"

namespace plimsoll::cpu::internal {
namespace {

struct Float8 {
  using T = float;
  using Reg = __m256;
  static constexpr int kWidth = 8;
  static __m256i First(int64_t count) {
    const int lanes = count >= 8 ? 8 : count <= 0 ? 0 : static_cast<int>(count);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Reg Load(const T* p) { return _mm256_loadu_ps(p); }
  static void Store(T* p, Reg x) { _mm256_storeu_ps(p, x); }
  static Reg LoadFirst(const T* p, int64_t count) {
    return count >= 8 ? Load(p) : _mm256_maskload_ps(p, First(count));
  }
  static void StoreFirst(T* p, Reg x, int64_t count) { _mm256_maskstore_ps(p, First(count), x); }
  static Reg Broadcast(const T* p) { return _mm256_broadcast_ss(p); }
  static Reg Zero() { return _mm256_setzero_ps(); }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  static void Accumulate(Reg& c, Reg a, Reg b) {
    asm volatile("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
  }
};

struct Double4 {
  using T = double;
  using Reg = __m256d;
  static constexpr int kWidth = 4;
  static __m256i First(int64_t count) {
    const int lanes = count >= 4 ? 4 : count <= 0 ? 0 : static_cast<int>(count);
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(lanes), _mm256_setr_epi64x(0, 1, 2, 3));
  }
  static Reg Load(const T* p) { return _mm256_loadu_pd(p); }
  static void Store(T* p, Reg x) { _mm256_storeu_pd(p, x); }
  static Reg LoadFirst(const T* p, int64_t count) {
    return count >= 4 ? Load(p) : _mm256_maskload_pd(p, First(count));
  }
  static void StoreFirst(T* p, Reg x, int64_t count) { _mm256_maskstore_pd(p, First(count), x); }
  static Reg Broadcast(const T* p) { return _mm256_broadcast_sd(p); }
  static Reg Zero() { return _mm256_setzero_pd(); }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_pd(a, b, c); }
  static void Accumulate(Reg& c, Reg a, Reg b) {
    asm volatile("vfmadd231pd %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
  }
};

}  // namespace

template <>
const KernelSet<float>& Avx2Kernels<float>() {
  return Kernels<Float8, 6>::kSet;
}
template <>
const KernelSet<double>& Avx2Kernels<double>() {
  return Kernels<Double4, 6>::kSet;
}

}  // namespace plimsoll::cpu::internal
