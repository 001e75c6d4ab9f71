// Attention's kernels for AVX-512: compiled with -mavx512f, called only where the processor has it.
#include <immintrin.h>

#include "ops/cpu/attention_kernels_impl.h"

namespace plimsoll::cpu::internal {
namespace {

// The masked forms of max with a full mask are the unmasked instructions; gcc 12 warns of the
// undefined operand in its own definition of the unmasked intrinsics.
struct Float16 {
  using T = float;
  using Reg = __m512;
  static constexpr int kWidth = 16;
  static constexpr int kMaxRows = 13;
  static Reg Load(const T* p) { return _mm512_loadu_ps(p); }
  static void Store(T* p, Reg x) { _mm512_storeu_ps(p, x); }
  static Reg Set(T x) { return _mm512_set1_ps(x); }
  static Reg Add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
  static Reg Sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
  static Reg Mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  static Reg Max(Reg a, Reg b) { return _mm512_maskz_max_ps(0xffff, a, b); }
  static Reg From(Reg x, int64_t first, Reg fill) {
    const unsigned lanes = first <= 0 ? 0 : first >= 16 ? 16 : static_cast<unsigned>(first);
    return _mm512_mask_mov_ps(x, static_cast<__mmask16>((1u << lanes) - 1), fill);
  }
  static Reg AddToExponent(Reg x, Reg shifted) {
    // Unsigned: lanes that are masked afterwards may wrap around.
    typedef uint32_t Bits __attribute__((vector_size(64)));
    return reinterpret_cast<Reg>(reinterpret_cast<Bits>(x) +
                                 (reinterpret_cast<Bits>(shifted) << 23));
  }
  static Reg Exp2(Reg x) { return Exp2Float<Float16>(x); }
};

struct Double8 {
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
  static Reg Exp2(Reg x) { return Exp2Lanes<Double8>(x); }
};

}  // namespace

template <>
const AttentionKernels<float>& Avx512Attention<float>() {
  return Attention<Float16>::kKernels;
}
template <>
const AttentionKernels<double>& Avx512Attention<double>() {
  return Attention<Double8>::kKernels;
}

}  // namespace plimsoll::cpu::internal
