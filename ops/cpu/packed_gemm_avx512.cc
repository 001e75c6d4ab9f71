// GEMM's kernels for AVX-512 (F, BW and VL): compiled with these flags, called only where the
// processor has them.
#include "ops/cpu/packed_gemm_kernels_impl.h"

namespace plimsoll::cpu::internal {
namespace {

struct Floats16 {
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

  // The masked forms are used with all lanes, because gcc 12 warns about uninitialised variables in
  // the unmasked ones.
  static Reg Widen(__m256i bits, const BFloat16*) {
    const __m512i words = _mm512_maskz_cvtepu16_epi32(0xffff, bits);
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, words, 16));
  }
  static Reg Widen(__m256i bits, const Float16*) { return _mm512_maskz_cvtph_ps(0xffff, bits); }
  template <typename S>
  static Reg Load(const S* p) {
    return Widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), p);
  }
  template <typename S>
  static Reg LoadFirst(const S* p, int64_t count) {
    return Widen(_mm256_maskz_loadu_epi16(First(count), p), p);
  }
};

struct Doubles8 {
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
  return Kernels<Floats16, 14>::kSet;
}
template <>
const KernelSet<double>& Avx512Kernels<double>() {
  return Kernels<Doubles8, 14>::kSet;
}
template <>
const Packing<float>& Avx512Packing<float>() {
  return Kernels<Floats16, 14>::kPacking<float>;
}
template <>
const Packing<double>& Avx512Packing<double>() {
  return Kernels<Doubles8, 14>::kPacking<double>;
}
template <>
const Packing<BFloat16>& Avx512Packing<BFloat16>() {
  return Kernels<Floats16, 14>::kPacking<BFloat16>;
}
template <>
const Packing<Float16>& Avx512Packing<Float16>() {
  return Kernels<Floats16, 14>::kPacking<Float16>;
}

}  // namespace plimsoll::cpu::internal
