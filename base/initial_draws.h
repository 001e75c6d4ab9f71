// Initial values of parameters. Element i of a parameter depends only on the seed, the stream (of
// the parameter's name) and i. So any thread, rank or device can draw any elements, with the same
// bits. Words 4b … 4b + 3 of the Philox stream belong to elements 4b … 4b + 3.
//
//   uniform   bound · (2u − 1), u = (word + ½) · 2⁻³²
//   normal    elements 2k and 2k + 1 from their two words (Box, Muller 1958):
//             stddev · r · cos θ and stddev · r · sin θ with r = √(−2 ln u) of the first word and
//             θ = 2π · 2⁻³² · the second word; |r| reaches 6.76
//
// Logarithm, sine and cosine are spelled out below in float32 operations that are rounded
// separately. No product may be contracted with a sum: a device that did so would draw other bits.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

// nvcc compiles the templates of this header for the GPU; other compilers compile them for the
// host.
#ifdef __CUDACC__
#define PLIMSOLL_DRAWS __device__ inline
#else
#define PLIMSOLL_DRAWS inline
#endif

namespace plimsoll {

struct InitialDraws {
  enum class Kind { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  float scale = 0;  // constant, standard deviation or bound, by kind
  uint64_t seed = 0;
  uint64_t stream = 0;  // StreamOf(name)
};

// The number of a parameter's random stream (FNV-1a).
uint64_t StreamOf(std::string_view name);

// Draws on the CPU: `values` becomes elements first, first + 1, …
void Draw(const InitialDraws& draws, int64_t first, std::span<float> values);

// The arithmetic `A` of the functions below has
//
//   Float, Bits                  a float and 32 bits, or vectors of them; Bits has operators
//   Splat, SplatBits             a vector with one value in all lanes
//   Multiply, Add, Root          rounded to nearest
//   FromInteger(Bits)            of int32, rounded to nearest
//   AsFloat, AsBits              the same bits
//   NotBelow(Bits, bits)         sets all bits of a lane if its unsigned value is not below `bits`
//   Choose(mask, Float, Float)   takes the first value where the mask is set, else the second

template <typename A>
struct NormalPair {
  typename A::Float first, second;
};

// −2 · ln((word + ½) · 2⁻³²) within 2.5 units in the last place, also next to zero.
template <typename A>
PLIMSOLL_DRAWS typename A::Float MinusTwiceLog(typename A::Bits word) {
  using Float = typename A::Float;
  using Bits = typename A::Bits;
  // ln(m · 2^e) = e · ln 2 + ln(1 + f) with m = 1 + f in [√½, √2]. For words from √½ · 2³² on, f
  // comes from the distance to 1, which keeps all its bits.
  const Bits near = A::NotBelow(word, 0xB504F334u);
  const Bits distance = word ^ near;
  const Float x = A::Add(A::Add(A::Multiply(A::FromInteger(distance >> 16), A::Splat(65536.0f)),
                                A::FromInteger(distance & 0xFFFFu)),
                         A::Splat(0.5f));
  constexpr uint32_t kRootOfHalf = 0x3F3504F3u, kOne = 0x3F800000u;
  const Bits shifted = A::AsBits(x) + (kOne - kRootOfHalf);
  const Float mantissa = A::AsFloat((shifted & 0x007FFFFFu) + kRootOfHalf);
  const Float f =
      A::Choose(near, A::Multiply(x, A::Splat(-0x1p-32f)), A::Add(mantissa, A::Splat(-1.0f)));
  const Float e = A::Choose(near, A::Splat(0.0f), A::FromInteger((shifted >> 23) - (127u + 32u)));
  // ln(1 + f) = f − f²/2 + f³ · p(f), the polynomial of Cephes' logf.
  Float p = A::Splat(7.0376836292e-2f);
  p = A::Add(A::Multiply(p, f), A::Splat(-1.1514610310e-1f));
  p = A::Add(A::Multiply(p, f), A::Splat(1.1676998740e-1f));
  p = A::Add(A::Multiply(p, f), A::Splat(-1.2420140846e-1f));
  p = A::Add(A::Multiply(p, f), A::Splat(1.4249322787e-1f));
  p = A::Add(A::Multiply(p, f), A::Splat(-1.6668057665e-1f));
  p = A::Add(A::Multiply(p, f), A::Splat(2.0000714765e-1f));
  p = A::Add(A::Multiply(p, f), A::Splat(-2.4999993993e-1f));
  p = A::Add(A::Multiply(p, f), A::Splat(3.3333331174e-1f));
  const Float square = A::Multiply(f, f);
  Float rest = A::Multiply(A::Multiply(p, f), square);
  // ln 2 is split into two parts. The first has few bits, so that its product with e is exact.
  rest = A::Add(rest, A::Multiply(e, A::Splat(-2.12194440e-4f)));
  rest = A::Add(rest, A::Multiply(square, A::Splat(-0.5f)));
  const Float log = A::Add(A::Add(f, rest), A::Multiply(e, A::Splat(0.693359375f)));
  return A::Multiply(log, A::Splat(-2.0f));
}

// cos θ and sin θ of θ = 2π · 2⁻³² · word, within 2⁻²³.
template <typename A>
PLIMSOLL_DRAWS NormalPair<A> CosineAndSine(typename A::Bits word) {
  using Float = typename A::Float;
  using Bits = typename A::Bits;
  // The number of the nearest quarter turn, and the angle from it, within ±π/4.
  const Bits quarter = (word + 0x20000000u) >> 30;
  const Float x =
      A::Multiply(A::FromInteger(word - (quarter << 30)), A::Splat(1.4629180792671596e-9f));
  const Float square = A::Multiply(x, x);
  // The polynomials of Cephes' sinf and cosf.
  Float sine = A::Splat(-1.9515295891e-4f);
  sine = A::Add(A::Multiply(sine, square), A::Splat(8.3321608736e-3f));
  sine = A::Add(A::Multiply(sine, square), A::Splat(-1.6666654611e-1f));
  sine = A::Add(A::Multiply(A::Multiply(sine, square), x), x);
  Float cosine = A::Splat(2.443315711809948e-5f);
  cosine = A::Add(A::Multiply(cosine, square), A::Splat(-1.388731625493765e-3f));
  cosine = A::Add(A::Multiply(cosine, square), A::Splat(4.166664568298827e-2f));
  cosine = A::Multiply(A::Multiply(cosine, square), square);
  cosine = A::Add(cosine, A::Multiply(square, A::Splat(-0.5f)));
  cosine = A::Add(cosine, A::Splat(1.0f));
  const Bits odd = A::SplatBits(0u) - (quarter & 1u);
  const Bits minus_cosine = ((quarter + 1u) & 2u) << 30, minus_sine = (quarter & 2u) << 30;
  return {A::AsFloat(A::AsBits(A::Choose(odd, sine, cosine)) ^ minus_cosine),
          A::AsFloat(A::AsBits(A::Choose(odd, cosine, sine)) ^ minus_sine)};
}

template <typename A>
PLIMSOLL_DRAWS NormalPair<A> DrawNormals(typename A::Bits first, typename A::Bits second,
                                         typename A::Float stddev) {
  const typename A::Float radius = A::Root(MinusTwiceLog<A>(first));
  const NormalPair<A> direction = CosineAndSine<A>(second);
  return {A::Multiply(A::Multiply(radius, direction.first), stddev),
          A::Multiply(A::Multiply(radius, direction.second), stddev)};
}

// 2u − 1 = (word − 2³¹ + ½) · 2⁻³¹.
template <typename A>
PLIMSOLL_DRAWS typename A::Float DrawUniform(typename A::Bits word, typename A::Float bound) {
  const typename A::Float centred = A::Add(A::FromInteger(word ^ 0x80000000u), A::Splat(0.5f));
  return A::Multiply(A::Multiply(centred, A::Splat(0x1p-31f)), bound);
}

}  // namespace plimsoll
