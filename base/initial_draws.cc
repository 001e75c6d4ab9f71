// Compiled with -ffp-contract=off (base/BUILD): each operation is rounded separately.
#include "base/initial_draws.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "base/philox.h"

namespace plimsoll {
namespace {

// The arithmetic `A` of base/initial_draws.h for eight lanes.
struct Lanes {
  typedef float Float __attribute__((vector_size(32)));
  typedef uint32_t Bits __attribute__((vector_size(32)));

  static Float Splat(float value) { return value - Float{}; }
  static Bits SplatBits(uint32_t value) { return value - Bits{}; }
  static Float Multiply(Float a, Float b) { return a * b; }
  static Float Add(Float a, Float b) { return a + b; }
  static Float Root(Float a) {
    return reinterpret_cast<Float>(_mm256_sqrt_ps(reinterpret_cast<__m256>(a)));
  }
  static Float FromInteger(Bits a) {
    return reinterpret_cast<Float>(_mm256_cvtepi32_ps(reinterpret_cast<__m256i>(a)));
  }
  static Float AsFloat(Bits a) { return reinterpret_cast<Float>(a); }
  static Bits AsBits(Float a) { return reinterpret_cast<Bits>(a); }
  static Bits NotBelow(Bits a, uint32_t bound) { return reinterpret_cast<Bits>(a >= bound); }
  static Float Choose(Bits mask, Float a, Float b) {
    return reinterpret_cast<Float>(_mm256_blendv_ps(
        reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(mask)));
  }
};

constexpr int64_t kGroup = 32;  // elements, or words, computed at once

// Computes 16 normal elements from 16 words.
void SixteenNormals(const uint32_t* words, float stddev, float* values) {
  const __m256 low = _mm256_loadu_ps(reinterpret_cast<const float*>(words));
  const __m256 high = _mm256_loadu_ps(reinterpret_cast<const float*>(words + 8));
  // `first` holds words 0, 2, 8, 10, 4, 6, 12, 14; `second` the words after each of them.
  const auto first = reinterpret_cast<Lanes::Bits>(_mm256_shuffle_ps(low, high, 0x88));
  const auto second = reinterpret_cast<Lanes::Bits>(_mm256_shuffle_ps(low, high, 0xDD));
  const NormalPair<Lanes> made = DrawNormals<Lanes>(first, second, Lanes::Splat(stddev));
  const auto a = reinterpret_cast<__m256>(made.first), b = reinterpret_cast<__m256>(made.second);
  _mm256_storeu_ps(values, _mm256_unpacklo_ps(a, b));
  _mm256_storeu_ps(values + 8, _mm256_unpackhi_ps(a, b));
}

void MakeGroup(const InitialDraws& draws, const uint32_t* words, float* values) {
  if (draws.kind == InitialDraws::Kind::kNormal) {
    for (int64_t i = 0; i < kGroup; i += 16) SixteenNormals(words + i, draws.scale, values + i);
    return;
  }
  for (int64_t i = 0; i < kGroup; i += 8) {
    Lanes::Bits bits;
    std::memcpy(&bits, words + i, sizeof(bits));
    const Lanes::Float made = DrawUniform<Lanes>(bits, Lanes::Splat(draws.scale));
    std::memcpy(values + i, &made, sizeof(made));
  }
}

}  // namespace

uint64_t StreamOf(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

void Draw(const InitialDraws& draws, int64_t first, std::span<float> values) {
  if (draws.kind == InitialDraws::Kind::kConstant) {
    std::ranges::fill(values, draws.scale);
    return;
  }
  const int32_t key[2] = {static_cast<int32_t>(static_cast<uint32_t>(draws.seed)),
                          static_cast<int32_t>(static_cast<uint32_t>(draws.seed >> 32))};
  const PhiloxStream stream(key, static_cast<int64_t>(draws.stream));
  const int64_t end = first + static_cast<int64_t>(values.size());
  for (int64_t at = first; at < end;) {
    const int64_t group = at / kGroup * kGroup;
    const int64_t count = std::min(group + kGroup, end) - at;
    float* const to = values.data() + (at - first);
    uint32_t words[kGroup];
    stream.Words(static_cast<uint64_t>(group), kGroup, words);
    if (count == kGroup) {
      MakeGroup(draws, words, to);
    } else {
      float made[kGroup];
      MakeGroup(draws, words, made);
      std::copy_n(made + (at - group), count, to);
    }
    at += count;
  }
}

}  // namespace plimsoll
