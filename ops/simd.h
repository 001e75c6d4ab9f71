// Vectors of 32 bytes (8 floats or 4 doubles) for kernels, and the mathematical functions that the
// compiler can't vectorise by itself. Sums have a fixed order: their bits depend only on the number
// of elements.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/low_precision.h"
#include "base/thread_pool.h"

namespace plimsoll::ops {

template <typename T>
struct VecOf;
template <>
struct VecOf<float> {
  typedef float Type __attribute__((vector_size(32)));
};
template <>
struct VecOf<double> {
  typedef double Type __attribute__((vector_size(32)));
};
template <typename T>
using Vec = typename VecOf<T>::Type;

template <typename T>
inline constexpr int kLanes = 32 / sizeof(T);

// Loads the first `count` lanes from memory; the others are zero.
template <typename T>
inline Vec<T> Load(const T* from, int count = kLanes<T>) {
  Vec<T> v = {};
  std::memcpy(&v, from, count * sizeof(T));
  return v;
}

// Writes the first `count` lanes.
template <typename T>
inline void Store(T* to, Vec<T> v, int count = kLanes<T>) {
  std::memcpy(to, &v, count * sizeof(T));
}

// Kernels compute with 16-bit elements as float: exact when loaded, rounded to nearest even when
// stored; NaN stays NaN and overflow becomes infinity, bit-equal to base/low_precision.h.
template <typename T>
inline Vec<float> Load(const BFloat16* from, int count = 8) {
  __m128i bits = _mm_setzero_si128();
  std::memcpy(&bits, from, count * sizeof(BFloat16));
  return reinterpret_cast<Vec<float>>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
template <typename T>
inline void Store(BFloat16* to, Vec<float> v, int count = 8) {
  const __m256i bits = reinterpret_cast<__m256i>(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256 nan =
      _mm256_cmp_ps(reinterpret_cast<__m256>(v), reinterpret_cast<__m256>(v), _CMP_UNORD_Q);
  const __m256i chosen =
      _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, reinterpret_cast<__m256i>(nan)), 16);
  const __m128i packed =
      _mm_packus_epi32(_mm256_castsi256_si128(chosen), _mm256_extracti128_si256(chosen, 1));
  std::memcpy(to, &packed, count * sizeof(BFloat16));
}
template <typename T>
inline Vec<float> Load(const Float16* from, int count = 8) {
  __m128i bits = _mm_setzero_si128();
  std::memcpy(&bits, from, count * sizeof(Float16));
  return reinterpret_cast<Vec<float>>(_mm256_cvtph_ps(bits));
}
template <typename T>
inline void Store(Float16* to, Vec<float> v, int count = 8) {
  const __m128i packed = _mm256_cvtps_ph(reinterpret_cast<__m256>(v), _MM_FROUND_TO_NEAREST_INT);
  std::memcpy(to, &packed, count * sizeof(Float16));
}

template <typename T>
inline Vec<T> Splat(std::type_identity_t<T> value) {
  return value - Vec<T>{};
}

// Calls body(i, count) for the vectors of [begin, end): count is the compile-time constant kLanes,
// except for a shorter last vector.
template <typename T, typename Body>
inline void ForVectors(int64_t begin, int64_t end, Body&& body) {
  int64_t i = begin;
  for (; i + kLanes<T> <= end; i += kLanes<T>) {
    body(i, std::integral_constant<int, kLanes<T>>());
  }
  if (i < end) body(i, static_cast<int>(end - i));
}

// The elements of a chunk of an elementwise loop. A chunk is large compared with the cost of
// handing it to a thread, and a multiple of every vector length.
inline constexpr int64_t kElementwiseGrain = 16384;

// ForVectors over [0, n) on all threads.
template <typename T, typename Body>
inline void ParallelVectors(ThreadPool& pool, int64_t n, const Body& body) {
  pool.ParallelFor(n, kElementwiseGrain,
                   [&](int64_t begin, int64_t end) { ForVectors<T>(begin, end, body); });
}

// The sum of the lanes, added pairwise.
template <typename T>
inline T SumLanes(Vec<T> v) {
  T lanes[kLanes<T>];
  std::memcpy(lanes, &v, sizeof(v));
  for (int half = kLanes<T> / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// The sum of term(i, count) over the vectors of [0, n); only the first `count` lanes of each are
// added. Four sums run in parallel to hide the latency of addition.
template <typename T, typename Term>
inline T SumVectors(int64_t n, const Term& term) {
  constexpr int kStep = kLanes<T>;
  constexpr std::integral_constant<int, kStep> kFull;
  Vec<T> a = {}, b = {}, c = {}, d = {};
  int64_t i = 0;
  for (; i + 4 * kStep <= n; i += 4 * kStep) {
    a += term(i, kFull);
    b += term(i + kStep, kFull);
    c += term(i + 2 * kStep, kFull);
    d += term(i + 3 * kStep, kFull);
  }
  for (; i + kStep <= n; i += kStep) a += term(i, kFull);
  if (i < n) {
    const int count = static_cast<int>(n - i);
    const Vec<T> last = term(i, count);
    Vec<T> kept = {};
    std::memcpy(&kept, &last, count * sizeof(T));
    b += kept;
  }
  return SumLanes<T>((a + b) + (c + d));
}

// Applies the function of <cmath> lane by lane: for double, which only tests use.
template <typename T, typename Function>
inline Vec<T> EachLane(Vec<T> v, Function function) {
  T lanes[kLanes<T>];
  std::memcpy(lanes, &v, sizeof(v));
  for (T& lane : lanes) lane = function(lane);
  return Load<T>(lanes);
}

// The correctly rounded square root, like std::sqrt.
inline Vec<float> Sqrt(Vec<float> v) { return reinterpret_cast<Vec<float>>(_mm256_sqrt_ps(v)); }
inline Vec<double> Sqrt(Vec<double> v) { return reinterpret_cast<Vec<double>>(_mm256_sqrt_pd(v)); }

// e^x. Float: 2^n · e^r with n = round(x / ln 2) and the Taylor polynomial of degree 7 on
// |r| ≤ ln 2 / 2, whose error is below 6e-9; relative error about 1e-7. x is clamped to
// [-87.3, 88.3], where the result is still a normal number; NaN stays NaN.
template <typename T>
inline Vec<T> Exp(Vec<T> x) {
  if constexpr (std::is_same_v<T, double>) {
    return EachLane<double>(x, [](double v) { return std::exp(v); });
  } else {
    typedef int32_t Bits __attribute__((vector_size(32)));
    const Vec<float> low = Splat<float>(-87.3f), high = Splat<float>(88.3f);
    x = x < low ? low : x;
    x = x > high ? high : x;
    // Adding 1.5 · 2^23 leaves the rounded integer in the low bits.
    const Vec<float> magic = Splat<float>(12582912.0f);
    const Vec<float> shifted = x * 1.44269504088896341f + magic;
    const Vec<float> n = shifted - magic;
    // ln 2 in two parts, the first with so few bits that n times it is exact.
    Vec<float> r = x - n * 0.693359375f;
    r = r - n * -2.12194440054690583e-4f;
    Vec<float> p = r * (1.0f / 5040) + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1.0f;
    // 2^n from its exponent bits. A product, unlike an addition of bits, keeps NaN.
    const Bits exponent = reinterpret_cast<Bits>(shifted) - reinterpret_cast<Bits>(magic) + 127;
    return p * reinterpret_cast<Vec<float>>(exponent << 23);
  }
}

// 1 / (1 + e^-x).
template <typename T>
inline Vec<T> Sigmoid(Vec<T> x) {
  return 1 / (1 + Exp<T>(-x));
}

// tanh(x). For float, the difference 1 − 2 / (1 + e^2x) loses the digits of a small x. So for |x| <
// 0.6, tanh(x) / x is a polynomial in x² that interpolates it at Chebyshev nodes (relative error
// 2e-8, without rounding).
template <typename T>
inline Vec<T> Tanh(Vec<T> x) {
  if constexpr (std::is_same_v<T, double>) {
    return EachLane<double>(x, [](double v) { return std::tanh(v); });
  } else {
    const Vec<float> size = x < 0 ? -x : x;
    const Vec<float> z = x * x;
    Vec<float> p = z * -0.00626911968f + 0.0211109594f;
    p = p * z - 0.0538739488f;
    p = p * z + 0.133329153f;
    p = p * z - 0.333333313f;
    const Vec<float> far = 1 - 2 / (1 + Exp<float>(size + size));
    return size < 0.6f ? x + x * (p * z) : x < 0 ? -far : far;
  }
}

// Φ(x), the normal distribution function, and its density φ(x) = e^(−x²/2) / √(2π).
template <typename T>
struct Normal {
  Vec<T> cdf, density;
};

// For float: Φ(−z) = φ(z) · √(2π) · R(z) for z ≥ 0, where R, the Mills ratio, is a polynomial in 1
// / (1 + 0.4·z). It is fitted on [0, 14] for the least relative error (3e-7, rounding included). So
// both tails have the relative precision of the exponential.
template <typename T>
inline Normal<T> NormalDistribution(Vec<T> x) {
  constexpr T kInverseSqrt2Pi = static_cast<T>(0.39894228040143267794);
  const Vec<T> exponential = Exp<T>(x * x * static_cast<T>(-0.5));
  const Vec<T> density = exponential * kInverseSqrt2Pi;
  if constexpr (std::is_same_v<T, double>) {
    constexpr double kInverseSqrt2 = 0.70710678118654752440;
    return {EachLane<double>(x, [](double v) { return 0.5 * std::erfc(-v * kInverseSqrt2); }),
            density};
  } else {
    const Vec<float> z = x < 0 ? -x : x;
    const Vec<float> t = 1 / (1 + z * 0.4f);
    Vec<float> p = t * 0.0327233672f - 0.179435447f;
    p = p * t + 0.3880862f;
    p = p * t - 0.381159186f;
    p = p * t + 0.124874398f;
    p = p * t - 0.0294128545f;
    p = p * t + 0.0921067521f;
    p = p * t + 0.13300024f;
    p = p * t + 0.159641191f;
    p = p * t + 0.159575343f;
    const Vec<float> tail = p * t * exponential;
    return {x < 0 ? tail : 1 - tail, density};
  }
}

}  // namespace plimsoll::ops
