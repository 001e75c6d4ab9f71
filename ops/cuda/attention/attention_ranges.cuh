// The keys that a query sees where rows hold several documents, or where there is a window
// (ops/attention/attention.h): those from First on, up to the query itself.
//
// The first key never decreases with the query, since documents lie one after the other. So the
// keys that a tile of queries sees begin with the first key of its first query; a tile of keys
// needs the mask of first keys only if it begins before the first key of the last query; and the
// tiles of queries that see a tile of keys end with the first one whose first query sees none.
//
// Kernels have a flag kRanges: without it they have no code for any of this. With it a tile costs
// one or two reads of `positions`, which stay in L1, and a tile with a mask one for each row or
// column that a thread has.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

struct AttentionRanges {
  // [batch, sequence]: the place of each token in its document. Values other than those that
  // attention.h allows give wrong results, or kernels that don't end. nullptr: one document a row.
  const int32_t* positions = nullptr;
  int window = 0;  // keys that a query sees at most, itself included; `sequence`: all
  int sequence = 0;

  // Whether any query may see fewer keys than by a causal mask.
  __host__ __device__ bool cuts() const { return positions != nullptr || window < sequence; }

  // The first key that the query sees. Between 0 and the query for any positions.
  __device__ int First(int64_t b, int query) const {
    int before = min(query, window - 1);
    if (positions != nullptr) {
      before = min(before, max(0, __ldg(positions + b * sequence + query)));
    }
    return query - before;
  }

  // The first key that the last query before `end` sees, and so all queries of a tile that ends
  // there. Padding, from `length` on, counts as the last token.
  __device__ int LastFirst(int64_t b, int end, int length) const {
    return First(b, min(end, length) - 1);
  }

  // Of the tiles of `size` queries in [begin, end), which begin within the sequence, the first one
  // without a query that sees a key before `key`; `end` if all have one.
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

// Calls body.template operator()<kDropout, kRanges, kPadded>(). Rows that are padded have no ranges
// that cut.
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
