// GEMM's kernels for AVX2 and FMA, the project's baseline.
#include "ops/cpu/packed_gemm_kernels_impl.h"

namespace plimsoll::cpu::internal {
namespace {

struct Floats8 {
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

  static Reg Widen(__m128i bits, const BFloat16*) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static Reg Widen(__m128i bits, const Float16*) { return _mm256_cvtph_ps(bits); }
  template <typename S>
  static Reg Load(const S* p) {
    return Widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), p);
  }
  template <typename S>
  static Reg LoadFirst(const S* p, int64_t count) {
    return count >= 8 ? Load(p) : Widen(FirstBits(p, count), p);
  }
  // AVX2 has no masked load of 16-bit values. For four or more values, loads the first four and the
  // last four, and shifts out the values that are in both.
  template <typename S>
  static __m128i FirstBits(const S* p, int64_t count) {
    if (count >= 4) {
      const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
      const __m128i high = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + count - 4));
      return _mm_unpacklo_epi64(low, _mm_srl_epi64(high, _mm_cvtsi64_si128(16 * (8 - count))));
    }
    int64_t bits = 0;
    for (int64_t i = 0; i < count; ++i) bits |= int64_t{p[i].bits} << (16 * i);
    return _mm_cvtsi64_si128(bits);
  }
};

struct Doubles4 {
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
  return Kernels<Floats8, 6>::kSet;
}
template <>
const KernelSet<double>& Avx2Kernels<double>() {
  return Kernels<Doubles4, 6>::kSet;
}
template <>
const Packing<float>& Avx2Packing<float>() {
  return Kernels<Floats8, 6>::kPacking<float>;
}
template <>
const Packing<double>& Avx2Packing<double>() {
  return Kernels<Doubles4, 6>::kPacking<double>;
}
template <>
const Packing<BFloat16>& Avx2Packing<BFloat16>() {
  return Kernels<Floats8, 6>::kPacking<BFloat16>;
}
template <>
const Packing<Float16>& Avx2Packing<Float16>() {
  return Kernels<Floats8, 6>::kPacking<Float16>;
}

}  // namespace plimsoll::cpu::internal
