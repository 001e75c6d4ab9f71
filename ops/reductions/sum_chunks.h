// How sums over complete tensors are divided on a GPU, and their scratch memory: in f64, a partial
// sum of each chunk of each tensor, and a sum of each tensor.
#pragma once

#include <cstdint>

#include "graph/op.h"

namespace plimsoll::ops {

inline constexpr int64_t kSumChunk =
    32768;  // elements of a chunk; one block of threads sums a chunk

inline int64_t SumChunks(int64_t elements) { return (elements + kSumChunk - 1) / kSumChunk; }

inline int64_t SumChunksBytes(const graph::OpCall& call) {
  int64_t sums = 0;
  for (const graph::TensorType* type : call.inputs) sums += SumChunks(type->shape.elements()) + 1;
  return sums * static_cast<int64_t>(sizeof(double));
}

}  // namespace plimsoll::ops
