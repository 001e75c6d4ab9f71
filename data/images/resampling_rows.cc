#include "data/images/resampling_rows.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace plimsoll::data {
namespace {

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

// A weight is split into upper · 2^kLowBits + lower, both of 16 bits. One instruction multiplies
// pairs of these by bytes and adds the products; the sums of both parts, put together, equal the
// 32-bit sum.
constexpr int kLowBits = 12;

// The weights of two adjacent pixels.
struct WeightPair {
  int32_t upper = 0, lower = 0;
};

WeightPair PairOf(int32_t first, int32_t second) {
  const auto packed = [](int32_t low, int32_t high) {
    const auto bits = static_cast<uint32_t>(low & 0xffff) | static_cast<uint32_t>(high) << 16;
    return static_cast<int32_t>(bits);
  };
  constexpr int32_t kLowMask = (1 << kLowBits) - 1;
  return {packed(first >> kLowBits, second >> kLowBits),
          packed(first & kLowMask, second & kLowMask)};
}

// The weights as pairs [count, pairs]. With an odd number of pixels, the last pixel's partner has
// weight 0.
struct PairedWeights {
  explicit PairedWeights(const ResamplingWindows& windows) : pairs((windows.most + 1) / 2) {
    const int32_t* row = windows.weights.data();
    for (size_t i = 0; i < windows.ranges.size(); ++i, row += windows.most) {
      for (int64_t k = 0; k < windows.most; k += 2) {
        weights.push_back(PairOf(row[k], k + 1 < windows.most ? row[k + 1] : 0));
      }
    }
  }
  const WeightPair* of(int64_t i) const { return weights.data() + i * pairs; }

  int64_t pairs;
  std::vector<WeightPair> weights;
};

// Eight sums of products, separate for the upper and lower parts of the weights.
struct Sums {
  __m256i upper = _mm256_setzero_si256(), lower = _mm256_set1_epi32(kHalf);

  void Add(__m256i pairs, __m256i upper_weights, __m256i lower_weights) {
    upper = _mm256_add_epi32(upper, _mm256_madd_epi16(pairs, upper_weights));
    lower = _mm256_add_epi32(lower, _mm256_madd_epi16(pairs, lower_weights));
  }
  __m256i Rounded() const {
    const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(upper, kLowBits), lower);
    return _mm256_srai_epi32(sum, kWeightBits);
  }
};

constexpr int64_t kRowsAtOnce = 4;
constexpr int64_t kLoaded = 8;  // bytes in a load: two pixels and the bytes after them

// Loads the next 8 bytes of two rows, one row into each half.
__m256i LoadTwo(const uint8_t* first, const uint8_t* second) {
  const auto load = [](const uint8_t* from) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  };
  return _mm256_set_m128i(load(second), load(first));
}

// The shuffle that interleaves the bytes of two pixels: for each channel, a pair of 16-bit numbers.
template <int64_t kChannels>
__m256i PairMask() {
  alignas(32) std::array<int8_t, 32> mask;
  mask.fill(-1);  // -1 selects a zero byte
  for (size_t half = 0; half < 32; half += 16) {
    for (size_t c = 0; c < kChannels; ++c) {
      mask[half + 4 * c] = static_cast<int8_t>(c);
      mask[half + 4 * c + 2] = static_cast<int8_t>(c + kChannels);
    }
  }
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(mask.data()));
}

// Resizes four rows at once. At least kLoaded readable bytes must follow the pixels. Each row of
// `to` needs room for three bytes after its pixels.
template <int64_t kChannels>
void SumFourAcross(const std::array<const uint8_t*, kRowsAtOnce>& rows, int64_t begin,
                   const ResamplingWindows& across, const PairedWeights& weights,
                   const std::array<uint8_t*, kRowsAtOnce>& to) {
  const __m256i mask = PairMask<kChannels>();
  for (size_t i = 0; i < across.ranges.size(); ++i) {
    const PixelRange range = across.ranges[i];
    const WeightPair* pair = weights.of(static_cast<int64_t>(i));
    Sums first, second;
    for (int64_t k = range.begin; k < range.end; k += 2, ++pair) {
      const __m256i upper = _mm256_set1_epi32(pair->upper), lower = _mm256_set1_epi32(pair->lower);
      const int64_t at = (k - begin) * kChannels;
      const __m256i a = LoadTwo(rows[0] + at, rows[1] + at);
      const __m256i b = LoadTwo(rows[2] + at, rows[3] + at);
      first.Add(_mm256_shuffle_epi8(a, mask), upper, lower);
      second.Add(_mm256_shuffle_epi8(b, mask), upper, lower);
    }
    // Rows 0 and 2 are in the lower half, rows 1 and 3 in the upper half, 4 bytes each.
    const __m256i words = _mm256_packs_epi32(first.Rounded(), second.Rounded());
    const __m256i bytes = _mm256_packus_epi16(words, words);
    const __m128i even = _mm256_castsi256_si128(bytes), odd = _mm256_extracti128_si256(bytes, 1);
    const std::array<int32_t, kRowsAtOnce> pixels = {
        _mm_cvtsi128_si32(even), _mm_cvtsi128_si32(odd), _mm_extract_epi32(even, 1),
        _mm_extract_epi32(odd, 1)};
    for (size_t row = 0; row < pixels.size(); ++row) {
      std::memcpy(to[row] + static_cast<int64_t>(i) * kChannels, &pixels[row], sizeof(int32_t));
    }
  }
}

template <int64_t kChannels>
ResampledRows SumAcross(const ByteRows& from, int64_t rows, int64_t begin,
                        const ResamplingWindows& across) {
  const int64_t row_bytes = std::ssize(across.ranges) * kChannels;
  ResampledRows result = {.bytes = {}, .stride = (row_bytes + 3 + kRowUnit - 1) & -kRowUnit};
  result.bytes.resize(static_cast<size_t>(rows * result.stride));
  const PairedWeights weights(across);
  // A load may read past a row's end into the next row. The last row is read from a copy, and so
  // are all rows of a picture narrower than a load.
  const int64_t copied = from.stride >= kLoaded ? 1 : rows;
  const uint8_t* const first_copied = from.first + (rows - copied) * from.stride;
  const int64_t read = (across.ranges.back().end - begin) * kChannels;
  std::vector<uint8_t> copy(first_copied, first_copied + (copied - 1) * from.stride + read);
  copy.resize(copy.size() + kLoaded);
  for (int64_t y = 0; y < rows; y += kRowsAtOnce) {
    std::array<const uint8_t*, kRowsAtOnce> some;
    std::array<uint8_t*, kRowsAtOnce> to;
    for (int64_t i = 0; i < kRowsAtOnce; ++i) {
      const int64_t row = std::min(y + i, rows - 1), in_copy = row - (rows - copied);
      some[static_cast<size_t>(i)] =
          in_copy >= 0 ? copy.data() + in_copy * from.stride : from.first + row * from.stride;
      to[static_cast<size_t>(i)] = result.bytes.data() + row * result.stride;
    }
    SumFourAcross<kChannels>(some, begin, across, weights, to);
  }
  return result;
}

// Sums of two rows, weighted by two weights, over kRowUnit bytes at a time.
struct RowSums {
  std::array<Sums, kRowUnit / 8> of_eight;

  void Add(const uint8_t* first, const uint8_t* second, const WeightPair& weights) {
    const __m256i upper = _mm256_set1_epi32(weights.upper);
    const __m256i lower = _mm256_set1_epi32(weights.lower);
    for (size_t i = 0; i < of_eight.size(); i += 2) {
      const auto load = [i](const uint8_t* from) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 8 * i));
      };
      const __m128i a = load(first), b = load(second);
      of_eight[i].Add(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b)), upper, lower);
      of_eight[i + 1].Add(_mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b)), upper, lower);
    }
  }
  __m256i Rounded() const {
    const __m256i low = _mm256_packs_epi32(of_eight[0].Rounded(), of_eight[1].Rounded());
    const __m256i high = _mm256_packs_epi32(of_eight[2].Rounded(), of_eight[3].Rounded());
    // Packing works within 128-bit halves, so groups of four bytes must be put in order.
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
  }
};

}  // namespace

ResampledRows SumAcross(const ByteRows& from, int64_t rows, int64_t channels, int64_t begin,
                        const ResamplingWindows& across) {
  return channels == 1 ? SumAcross<1>(from, rows, begin, across)
                       : SumAcross<3>(from, rows, begin, across);
}

void SumDown(const ResampledRows& from, int64_t begin, int64_t row_bytes,
             const ResamplingWindows& down, uint8_t* to) {
  const PairedWeights weights(down);
  for (size_t i = 0; i < down.ranges.size(); ++i, to += row_bytes) {
    const PixelRange range = down.ranges[i];
    const uint8_t* const first = from.bytes.data() + (range.begin - begin) * from.stride;
    for (int64_t at = 0; at < row_bytes; at += kRowUnit) {
      RowSums sums;
      const WeightPair* pair = weights.of(static_cast<int64_t>(i));
      for (int64_t k = range.begin; k < range.end; k += 2, ++pair) {
        const uint8_t* const row = first + (k - range.begin) * from.stride + at;
        sums.Add(row, k + 1 < range.end ? row + from.stride : row, *pair);
      }
      alignas(kRowUnit) std::array<uint8_t, kRowUnit> bytes;
      _mm256_store_si256(reinterpret_cast<__m256i*>(bytes.data()), sums.Rounded());
      std::memcpy(to + at, bytes.data(), static_cast<size_t>(std::min(kRowUnit, row_bytes - at)));
    }
  }
}

}  // namespace plimsoll::data
