// Numbers in memory, in a type of their own: consecutive elements of a tensor as a file holds them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/dtype.h"

namespace plimsoll::graph {

struct TypedElements {
  DType dtype = DType::kFloat32;
  const std::byte* data = nullptr;  // aligned to the element
  int64_t count = 0;
};

// Of f32, bf16 or f16. InternalError for another type.
void CopyAsFloat32(const TypedElements& elements, float* to);

}  // namespace plimsoll::graph
