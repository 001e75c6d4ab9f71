// Attention's kernels for AVX2 and FMA, the project's baseline.
#include <immintrin.h>

#include "ops/cpu/attention_loops_kernels_impl.h"

namespace plimsoll::cpu::internal {
namespace {

struct Floats8 {
  using T = float;
  using Reg = __m256;
  static constexpr int kWidth = 8;
  static constexpr int kMaxRows = 6;
  static Reg Load(const T* p) { return _mm256_loadu_ps(p); }
  static void Store(T* p, Reg x) { _mm256_storeu_ps(p, x); }
  static Reg Load(const BFloat16* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static Reg Load(const Float16* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static void Store(BFloat16* p, Reg x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(p),
        _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1)));
  }
  static void Store(Float16* p, Reg x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  static Reg Set(T x) { return _mm256_set1_ps(x); }
  static Reg Add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
  static Reg Sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
  static Reg Mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  static Reg Div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  static Reg Max(Reg a, Reg b) { return _mm256_max_ps(a, b); }
  static Reg Select(Reg a, Reg b, Reg x, Reg y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  static Reg From(Reg x, int64_t first, Reg fill) {
    const int lanes = first <= 0 ? 0 : first >= 8 ? 8 : static_cast<int>(first);
    const __m256i before =
        _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return _mm256_blendv_ps(x, fill, _mm256_castsi256_ps(before));
  }
  static Reg AddToExponent(Reg x, Reg shifted) {
    // The type is unsigned, because lanes that are masked afterwards may wrap around.
    typedef uint32_t Bits __attribute__((vector_size(32)));
    return reinterpret_cast<Reg>(reinterpret_cast<Bits>(x) +
                                 (reinterpret_cast<Bits>(shifted) << 23));
  }
  static Reg Exp2(Reg x) { return Exp2Float<Floats8>(x); }
  static Reg Tanh(Reg x) { return TanhFloat<Floats8>(x); }
};

struct Doubles4 {
  using T = double;
  using Reg = __m256d;
  static constexpr int kWidth = 4;
  static constexpr int kMaxRows = 6;
  static Reg Load(const T* p) { return _mm256_loadu_pd(p); }
  static void Store(T* p, Reg x) { _mm256_storeu_pd(p, x); }
  static Reg Set(T x) { return _mm256_set1_pd(x); }
  static Reg Add(Reg a, Reg b) { return _mm256_add_pd(a, b); }
  static Reg Sub(Reg a, Reg b) { return _mm256_sub_pd(a, b); }
  static Reg Mul(Reg a, Reg b) { return _mm256_mul_pd(a, b); }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_pd(a, b, c); }
  static Reg Max(Reg a, Reg b) { return _mm256_max_pd(a, b); }
  static Reg From(Reg x, int64_t first, Reg fill) {
    const int lanes = first <= 0 ? 0 : first >= 4 ? 4 : static_cast<int>(first);
    const __m256i before =
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(lanes), _mm256_setr_epi64x(0, 1, 2, 3));
    return _mm256_blendv_pd(x, fill, _mm256_castsi256_pd(before));
  }
  static Reg Exp2(Reg x) { return Exp2Lanes<Doubles4>(x); }
  static Reg Tanh(Reg x) { return TanhLanes<Doubles4>(x); }
};

}  // namespace

template <>
const AttentionKernels<float>& Avx2Attention<float>() {
  return Attention<Floats8>::kKernels<float>;
}
template <>
const AttentionKernels<double>& Avx2Attention<double>() {
  return Attention<Doubles4>::kKernels<double>;
}
template <>
const AttentionKernels<BFloat16>& Avx2Attention<BFloat16>() {
  return Attention<Floats8>::kKernels<BFloat16>;
}
template <>
const AttentionKernels<Float16>& Avx2Attention<Float16>() {
  return Attention<Floats8>::kKernels<Float16>;
}

}  // namespace plimsoll::cpu::internal
