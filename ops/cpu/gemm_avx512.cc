// GEMM's kernels for AVX-512: compiled with -mavx512f, called only where the processor has it.
#include "ops/cpu/gemm_kernels_impl.h"

namespace plimsoll::cpu::internal {
namespace {

struct Float16 {
  using T = float;
  using Reg = __m512;
  static constexpr int kWidth = 16;
  static __mmask16 First(int64_t count) {
    return count >= 16 ? 0xffff : count <= 0 ? 0 : static_cast<__mmask16>((1u << count) - 1);
  }
  static Reg Load(const T* p) { return _mm512_loadu_ps(p); }
  static void Store(T* p, Reg x) { _mm512_storeu_ps(p, x); }
  static Reg LoadFirst(const T* p, int64_t count) { return _mm512_maskz_loadu_ps(First(count), p); }
  static void StoreFirst(T* p, Reg x, int64_t count) { _mm512_mask_storeu_ps(p, First(count), x); }
  static Reg Broadcast(const T* p) { return _mm512_set1_ps(*p); }
  static Reg Zero() { return _mm512_setzero_ps(); }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  static void Accumulate(Reg& c, Reg a, Reg b) {
    asm volatile("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
  }
};

struct Double8 {
  using T = double;
  using Reg = __m512d;
  static constexpr int kWidth = 8;
  static __mmask8 First(int64_t count) {
    return count >= 8 ? 0xff : count <= 0 ? 0 : static_cast<__mmask8>((1u << count) - 1);
  }
  static Reg Load(const T* p) { return _mm512_loadu_pd(p); }
  static void Store(T* p, Reg x) { _mm512_storeu_pd(p, x); }
  static Reg LoadFirst(const T* p, int64_t count) { return _mm512_maskz_loadu_pd(First(count), p); }
  static void StoreFirst(T* p, Reg x, int64_t count) { _mm512_mask_storeu_pd(p, First(count), x); }
  static Reg Broadcast(const T* p) { return _mm512_set1_pd(*p); }
  static Reg Zero() { return _mm512_setzero_pd(); }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_pd(a, b, c); }
  static void Accumulate(Reg& c, Reg a, Reg b) {
    asm volatile("vfmadd231pd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
  }
};

}  // namespace

template <>
const KernelSet<float>& Avx512Kernels<float>() {
  return Kernels<Float16, 14>::kSet;
}
template <>
const KernelSet<double>& Avx512Kernels<double>() {
  return Kernels<Double8, 14>::kSet;
}

}  // namespace plimsoll::cpu::internal
