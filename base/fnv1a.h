// A number for a text, equal on all machines: FNV-1a, 64 bits (Fowler, Noll, Vo). Against chance,
// not against intent.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll {

inline constexpr uint64_t kFnv1a = 0xcbf29ce484222325;  // of the empty text

// Of `text` behind what gave `before`.
constexpr uint64_t Fnv1a(std::string_view text, uint64_t before = kFnv1a) {
  for (const char c : text) before = (before ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return before;
}

}  // namespace plimsoll
