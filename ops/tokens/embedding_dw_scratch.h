// The scratch memory of embedding_dw on a GPU, which sorts the positions of tokens by token and
// sums pieces of that list in parallel.
#pragma once

#include <cstdint>

#include "graph/op.h"

namespace plimsoll::ops {

// The number of sorted positions that one warp sums.
inline constexpr int kEmbeddingPiece = 32;

// Byte offsets in the workspace; each part is aligned to 256 bytes.
struct EmbeddingDwScratch {
  int64_t keys[2];       // i32[N], tokens before and after a pass of the sort
  int64_t positions[2];  // i32[N], positions of these tokens
  int64_t sort;          // scratch of the sort itself
  int64_t sort_bytes;
  int64_t partials;  // f32[pieces,2,D]: sums of runs that extend beyond their piece
  int64_t total;

  EmbeddingDwScratch(int64_t tokens, int64_t width) {
    int64_t end = 0;
    const auto add = [&](int64_t bytes) {
      const int64_t begin = end;
      end += (bytes + 255) / 256 * 256;
      return begin;
    };
    const int64_t word = sizeof(int32_t);
    for (int64_t* part : {&keys[0], &keys[1], &positions[0], &positions[1]}) {
      *part = add(tokens * word);
    }
    // The scratch of the sort has counters of digits for each tile of the list. This bound holds
    // for any GPU.
    sort_bytes = (int64_t{1} << 20) + tokens;
    sort = add(sort_bytes);
    partials = add(Pieces(tokens) * 2 * width * word);
    total = end;
  }

  static int64_t Pieces(int64_t tokens) { return (tokens + kEmbeddingPiece - 1) / kEmbeddingPiece; }
};

inline int64_t EmbeddingDwScratchBytes(const graph::OpCall& call) {
  return EmbeddingDwScratch(call.input(0).shape.elements(), call.input(1).shape.dim(-1)).total;
}

}  // namespace plimsoll::ops
