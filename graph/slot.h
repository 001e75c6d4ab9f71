// A slot: an input of programs, which the host fills with row-major data.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "graph/tensor.h"

namespace plimsoll::graph {

struct Slot {
  std::string name;  // "tokens"
  TensorType type;
  std::span<std::byte> bytes;

  template <typename T>
  std::span<T> values() const {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

}  // namespace plimsoll::graph
