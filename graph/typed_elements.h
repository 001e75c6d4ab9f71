// Numbers in memory together with their element type, such as consecutive elements of a parameter
// in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/dtype.h"

namespace plimsoll::graph {

struct TypedElements {
  DType dtype = DType::kFloat32;
  const std::byte* data = nullptr;
  int64_t count = 0;

  static TypedElements Of(std::span<const float> values) {
    return {DType::kFloat32, reinterpret_cast<const std::byte*>(values.data()),
            static_cast<int64_t>(values.size())};
  }
  TypedElements Part(int64_t begin, int64_t end) const {
    return {dtype, data + begin * ByteSize(dtype), end - begin};
  }
};

}  // namespace plimsoll::graph
