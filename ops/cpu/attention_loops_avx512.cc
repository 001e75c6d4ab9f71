// Attention's kernels for AVX-512: compiled with -mavx512f, called only where the processor has it.
#include <immintrin.h>

#include "ops/cpu/attention_loops_kernels_impl.h"

namespace plimsoll::cpu::internal {
namespace {

// With a full mask, the masked forms are the unmasked instructions; gcc 12 warns about the
// undefined operand in its own definition of some unmasked intrinsics.
struct Floats16 {
  using T = float;
  using Reg = __m512;
  static constexpr int kWidth = 16;
  static constexpr int kMaxRows = 13;
  static Reg Load(const T* p) { return _mm512_loadu_ps(p); }
  static void Store(T* p, Reg x) { _mm512_storeu_ps(p, x); }
  static Reg Load(const BFloat16* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(
        _mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, bits), 16));
  }
  static Reg Load(const Float16* p) {
    return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static void Store(BFloat16* p, Reg x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd =
        _mm512_and_si512(_mm512_maskz_srli_epi32(0xffff, bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i chosen = _mm512_mask_mov_epi32(rounded, nan, quiet);
    const __m256i high =
        _mm512_maskz_cvtepi32_epi16(0xffff, _mm512_maskz_srli_epi32(0xffff, chosen, 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), high);
  }
  static void Store(Float16* p, Reg x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_maskz_cvtps_ph(0xffff, x, _MM_FROUND_TO_NEAREST_INT));
  }
  static Reg Set(T x) { return _mm512_set1_ps(x); }
  static Reg Add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
  static Reg Sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
  static Reg Mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  static Reg Div(Reg a, Reg b) { return _mm512_div_ps(a, b); }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  static Reg Max(Reg a, Reg b) { return _mm512_maskz_max_ps(0xffff, a, b); }
  static Reg Select(Reg a, Reg b, Reg x, Reg y) {
    return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), x);
  }
  static Reg From(Reg x, int64_t first, Reg fill) {
    const unsigned lanes = first <= 0 ? 0 : first >= 16 ? 16 : static_cast<unsigned>(first);
    return _mm512_mask_mov_ps(x, static_cast<__mmask16>((1u << lanes) - 1), fill);
  }
  static Reg AddToExponent(Reg x, Reg shifted) {
    // The type is unsigned, because lanes that are masked afterwards may wrap around.
    typedef uint32_t Bits __attribute__((vector_size(64)));
    return reinterpret_cast<Reg>(reinterpret_cast<Bits>(x) +
                                 (reinterpret_cast<Bits>(shifted) << 23));
  }
  static Reg Exp2(Reg x) { return Exp2Float<Floats16>(x); }
  static Reg Tanh(Reg x) { return TanhFloat<Floats16>(x); }
};

struct Doubles8 {
  using T = double;
  using Reg = __m512d;
  static constexpr int kWidth = 8;
  static constexpr int kMaxRows = 13;
  static Reg Load(const T* p) { return _mm512_loadu_pd(p); }
  static void Store(T* p, Reg x) { _mm512_storeu_pd(p, x); }
  static Reg Set(T x) { return _mm512_set1_pd(x); }
  static Reg Add(Reg a, Reg b) { return _mm512_add_pd(a, b); }
  static Reg Sub(Reg a, Reg b) { return _mm512_sub_pd(a, b); }
  static Reg Mul(Reg a, Reg b) { return _mm512_mul_pd(a, b); }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_pd(a, b, c); }
  static Reg Max(Reg a, Reg b) { return _mm512_maskz_max_pd(0xff, a, b); }
  static Reg From(Reg x, int64_t first, Reg fill) {
    const unsigned lanes = first <= 0 ? 0 : first >= 8 ? 8 : static_cast<unsigned>(first);
    return _mm512_mask_mov_pd(x, static_cast<__mmask8>((1u << lanes) - 1), fill);
  }
  static Reg Exp2(Reg x) { return Exp2Lanes<Doubles8>(x); }
  static Reg Tanh(Reg x) { return TanhLanes<Doubles8>(x); }
};

}  // namespace

template <>
const AttentionKernels<float>& Avx512Attention<float>() {
  return Attention<Floats16>::kKernels<float>;
}
template <>
const AttentionKernels<double>& Avx512Attention<double>() {
  return Attention<Doubles8>::kKernels<double>;
}
template <>
const AttentionKernels<BFloat16>& Avx512Attention<BFloat16>() {
  return Attention<Floats16>::kKernels<BFloat16>;
}
template <>
const AttentionKernels<Float16>& Avx512Attention<Float16>() {
  return Attention<Floats16>::kKernels<Float16>;
}

}  // namespace plimsoll::cpu::internal
