// The elementwise sum or maximum of the contributions of a group's ranks. Contributions are reduced
// in the order of the ranks, so every rank gets the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/dtype.h"
#include "ops/collectives/communicator.h"

namespace plimsoll::runtime {

// The addresses of the contributions: this rank's own, and rank r's at others + r·stride_bytes.
struct Contributions {
  const std::byte* own;
  const std::byte* others;
  int64_t stride_bytes;
  int rank;
  int size;

  const std::byte* of(int r) const { return r == rank ? own : others + r * stride_bytes; }
};

// to[i] = reduction of all contributions' element i, for `count` elements; `to` may be `own`. bf16
// and f16 are added in float32 and rounded once. u8 and i32 wrap around. Takes any type but i16.
void ReduceInRankOrder(const Contributions& from, std::byte* to, int64_t count, graph::DType dtype,
                       ops::Reduction reduction);

}  // namespace plimsoll::runtime
