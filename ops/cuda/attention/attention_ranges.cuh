// The keys that a query sees if rows hold several documents, or if there is a window
// (ops/attention/attention.h): those from First on, up to the query itself.
//
// The first key never decreases with the query, because documents are consecutive. Therefore:
// - the keys that a tile of queries sees begin with the first key of its first query;
// - a tile of keys needs the mask only if it begins before the first key of the last query;
// - the tiles of queries that see a tile of keys end before the first one whose first query sees
// none.
//
// Kernels have a flag kRanges: without it they have no code for this. With it a tile costs one or
// two reads of `positions`, which stay in L1, and a tile with a mask one read for each row or
// column that a thread has.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

struct AttentionRanges {
  // [batch, sequence]: the position of each token in its document. Values that attention.h does not
  // allow give wrong results, or kernels that don't terminate. nullptr: a row is one document.
  const int32_t* positions = nullptr;
  // The most keys that a query sees, its own included; equal to `sequence` without a window.
  int window = 0;
  int sequence = 0;

  // Whether any query may see fewer keys than a causal mask allows.
  __host__ __device__ bool cuts() const { return positions != nullptr || window < sequence; }

  // The first key that the query sees. It is between 0 and the query for any positions.
  __device__ int First(int64_t b, int query) const {
    int before = min(query, window - 1);
    if (positions != nullptr) {
      before = min(before, max(0, __ldg(positions + b * sequence + query)));
    }
    return query - before;
  }

  // The first key that the last query before `end` sees, and so all queries of a tile that ends
  // there. Padding, from `length` on, counts like the last token.
  __device__ int LastFirst(int64_t b, int end, int length) const {
    return First(b, min(end, length) - 1);
  }

  // Among the tiles of `size` queries in [begin, end), the first one without a query that sees a
  // key before `key`; `end` if all have such a query. Tiles must begin within the sequence.
  __device__ int EndTile(int64_t b, int size, int key, int begin, int end) const {
    while (begin < end) {
      const int middle = (begin + end) / 2;
      if (First(b, middle * size) < key) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  }
};

// Calls body.template operator()<kDropout, kRanges>().
template <typename Body>
void DispatchDropoutAndRanges(bool drops, bool cuts, Body&& body) {
  if (drops) {
    cuts ? body.template operator()<true, true>() : body.template operator()<true, false>();
  } else {
    cuts ? body.template operator()<false, true>() : body.template operator()<false, false>();
  }
}

// Calls body.template operator()<kDropout, kRanges, kPadded>(). Padded rows have no ranges that
// limit queries.
template <typename Body>
void DispatchDropoutAndMask(bool drops, bool cuts, bool padded, Body&& body) {
  if (padded) {
    drops ? body.template operator()<true, false, true>()
          : body.template operator()<false, false, true>();
    return;
  }
  DispatchDropoutAndRanges(drops, cuts, [&]<bool kDropout, bool kRanges>() {
    body.template operator()<kDropout, kRanges, false>();
  });
}

}  // namespace plimsoll::ops
