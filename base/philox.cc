#include "base/philox.h"

#include <immintrin.h>

#include <cmath>

#include "base/error.h"

namespace plimsoll {
namespace {

// The multipliers and the key increments (golden ratio and √3 − 1) of table 2 of the paper.
constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kKeyStep0 = 0x9E3779B9;
constexpr uint32_t kKeyStep1 = 0xBB67AE85;

// Number of blocks computed at once, one per vector lane.
constexpr int kLanes = 8;

struct Product {
  __m256i high, low;
};

// Computes eight 32 × 32 → 64 bit products. Even and odd lanes are multiplied separately, since the
// processor's widening multiplication takes the lower half of each 64-bit lane.
inline Product Multiply(__m256i a, uint32_t multiplier) {
  const __m256i factor = _mm256_set1_epi64x(multiplier);
  const __m256i even = _mm256_mul_epu32(a, factor);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), factor);
  return {_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA),
          _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA)};
}

inline __m256i Broadcast(uint64_t word) {
  return _mm256_set1_epi32(static_cast<int32_t>(static_cast<uint32_t>(word)));
}

inline void Store(uint32_t* words, __m256i lower, __m256i upper, int half) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words),
                      half == 0 ? _mm256_permute2x128_si256(lower, upper, 0x20)
                                : _mm256_permute2x128_si256(lower, upper, 0x31));
}

// Computes blocks index … index + 7. The low half of the counter must not wrap within them.
void EightBlocks(uint64_t index, uint64_t stream, std::array<uint32_t, 2> key, int rounds,
                 uint32_t* words) {
  __m256i c0 = _mm256_add_epi32(Broadcast(index), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  __m256i c1 = Broadcast(index >> 32);
  __m256i c2 = Broadcast(stream);
  __m256i c3 = Broadcast(stream >> 32);
  for (int round = 0; round < rounds; ++round) {
    const Product p0 = Multiply(c0, kMultiplier0);
    const Product p1 = Multiply(c2, kMultiplier1);
    c0 = _mm256_xor_si256(_mm256_xor_si256(p1.high, c1), Broadcast(key[0]));
    c1 = p1.low;
    c2 = _mm256_xor_si256(_mm256_xor_si256(p0.high, c3), Broadcast(key[1]));
    c3 = p0.low;
    key[0] += kKeyStep0;
    key[1] += kKeyStep1;
  }
  // Transposes from one vector per word to one 128-bit half per block.
  const __m256i a = _mm256_unpacklo_epi32(c0, c1);  // words 0, 1 of blocks 0, 1 and 4, 5
  const __m256i b = _mm256_unpackhi_epi32(c0, c1);  // … of blocks 2, 3 and 6, 7
  const __m256i c = _mm256_unpacklo_epi32(c2, c3);
  const __m256i d = _mm256_unpackhi_epi32(c2, c3);
  const __m256i blocks04 = _mm256_unpacklo_epi64(a, c);
  const __m256i blocks15 = _mm256_unpackhi_epi64(a, c);
  const __m256i blocks26 = _mm256_unpacklo_epi64(b, d);
  const __m256i blocks37 = _mm256_unpackhi_epi64(b, d);
  Store(words, blocks04, blocks15, 0);
  Store(words + 8, blocks26, blocks37, 0);
  Store(words + 16, blocks04, blocks15, 1);
  Store(words + 24, blocks26, blocks37, 1);
}

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key,
                                   int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMultiplier0) * counter[0];
    const uint64_t p1 = static_cast<uint64_t>(kMultiplier1) * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += kKeyStep0;
    key[1] += kKeyStep1;
  }
  return counter;
}

std::array<uint32_t, 4> PhiloxStream::Block(uint64_t index) const {
  return Philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                     static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                    key_, rounds_);
}

void PhiloxStream::Words(uint64_t first, int64_t count, uint32_t* words) const {
  while (count > 0) {
    const uint64_t block = first / 4;
    const bool wraps = static_cast<uint32_t>(block) > UINT32_MAX - kLanes;
    if (first % 4 == 0 && count >= 4 * kLanes && !wraps) {
      EightBlocks(block, stream_, key_, rounds_, words);
      first += 4 * kLanes;
      words += 4 * kLanes;
      count -= 4 * kLanes;
      continue;
    }
    const std::array<uint32_t, 4> four = Block(block);
    for (uint64_t word = first % 4; word < 4 && count > 0; ++word, --count) {
      *words++ = four[word];
      ++first;
    }
  }
}

uint32_t DropThreshold(double p) {
  if (!(p >= 0 && p < 1)) throw InternalError("dropout probability outside [0, 1)");
  const double threshold = std::nearbyint(p * 4294967296.0);
  return threshold >= 4294967295.0 ? UINT32_MAX : static_cast<uint32_t>(threshold);
}

}  // namespace plimsoll
