// y[i] = draw[i] < threshold ? 0 : x[i] · keep_scale. Threads share chunks of elements or, if x
// consists of scores, bands of 16 queries. Random words are made a few hundred at a time in the
// first-level cache. Bytes: 2·n·s.
#include <algorithm>

#include "base/dropout_draws.h"
#include "base/philox.h"
#include "ops/elementwise/dropout.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kDrawsAtOnce = 1024;

// v, with zeros in the lanes whose draw is below the threshold.
template <typename T>
Vec<T> DropBelow(uint32_t threshold, const uint16_t* draws, Vec<T> v) {
  typedef uint16_t Draws __attribute__((vector_size(2 * kLanes<T>)));
  using Lane = std::conditional_t<std::is_same_v<T, float>, uint32_t, uint64_t>;
  typedef Lane Wide __attribute__((vector_size(32)));
  Draws d;
  std::memcpy(&d, draws, sizeof(d));
  return __builtin_convertvector(d, Wide) < threshold ? Vec<T>{} : v;
}

// Drops elements [0, n). Reads full vectors of draws.
template <typename S>
void Drop(const DropRule& rule, int64_t n, const uint16_t* draws, const S* x, S* y) {
  using T = Compute<S>;
  const T scale = static_cast<T>(rule.keep_scale);
  ForVectors<T>(0, n, [&](int64_t i, auto lanes) {
    const Vec<T> kept = Load<T>(x + i, lanes) * scale;
    Store<T>(y + i, DropBelow<T>(rule.threshold, draws + i, kept), lanes);
  });
}

// Fills `draws` with the draws of the words [word, word + words) of the stream.
void Draws(const PhiloxStream& stream, uint64_t word, int64_t words, uint16_t* draws) {
  alignas(64) uint32_t made[kDrawsAtOnce / 2 + 1];
  stream.Words(word, words, made);
  // The processor stores the lower half of a word first, so that the order of draws is right.
  std::memcpy(draws, made, words * sizeof(uint32_t));
}

template <typename S>
void DropElements(const CpuContext& ctx, const PhiloxStream& stream, const DropRule& rule) {
  static_assert(kElementwiseGrain % kDrawsAtOnce == 0);
  const S* x = ctx.in<S>(0);
  S* y = ctx.out<S>(0);
  const int64_t n = ctx.in_shape(0).elements();
  const PartDraws part(ctx.in_shape(0), ctx.attributes, ctx.ranks);
  ctx.pool.ParallelFor(n, kElementwiseGrain, [=](int64_t begin, int64_t end) {
    alignas(64) uint16_t draws[kDrawsAtOnce + 2] = {};
    int64_t count;
    for (int64_t i = begin; i < end; i += count) {
      count = std::min({kDrawsAtOnce, end - i, part.run - i % part.run});
      const int64_t first = part.Of(i), odd = first % 2;
      Draws(stream, static_cast<uint64_t>(first / 2), (odd + count + 1) / 2, draws);
      Drop(rule, count, draws + odd, x + i, y + i);
    }
  });
}

template <typename S>
void DropScores(const CpuContext& ctx, const PhiloxStream& stream, const DropRule& rule) {
  const S* x = ctx.in<S>(0);
  S* y = ctx.out<S>(0);
  const graph::Shape& shape = ctx.in_shape(0);
  const int64_t sequence = shape.dim(shape.rank() - 1);
  const int64_t bands = (sequence + kScoreTile - 1) / kScoreTile;
  const int64_t matrices = shape.elements() / (sequence * sequence);
  ctx.pool.ParallelFor(matrices * bands, 1, [=](int64_t band, int64_t) {
    const int64_t row = band / bands;
    const int64_t query = band % bands * kScoreTile;
    const int64_t queries = std::min(kScoreTile, sequence - query);
    uint16_t draws[kDrawsOfScoreTile], of_query[kScoreTile];
    for (int64_t key = 0; key < sequence; key += kScoreTile) {
      const int64_t keys = std::min(kScoreTile, sequence - key);
      const uint64_t first = ScoreTileNumber(row, query, key, sequence) * kDrawsOfScoreTile;
      Draws(stream, first / 2, kDrawsOfScoreTile / 2, draws);
      for (int64_t i = 0; i < queries; ++i) {
        for (int64_t j = 0; j < kScoreTile; ++j) of_query[j] = draws[DrawInScoreTile(i, j)];
        const int64_t at = (row * sequence + query + i) * sequence + key;
        Drop(rule, keys, of_query, x + at, y + at);
      }
    }
  });
}

void Dropout(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    const DropRule rule(ctx.attributes.GetReal("p"));
    const PhiloxStream stream = DropoutStream(ctx.in<int32_t>(1), ctx.attributes.GetInt("key"));
    DropsScores(ctx.attributes) ? DropScores<S>(ctx, stream, rule)
                                : DropElements<S>(ctx, stream, rule);
  });
}

const CpuKernelRegistration kDropout({"dropout", &Dropout});

}  // namespace
}  // namespace plimsoll::ops
