// A hash of a text, equal on all machines: FNV-1a, 64 bits (Fowler, Noll, Vo). It protects against
// accidental collisions, not against deliberate ones.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll {

inline constexpr uint64_t kFnv1a = 0xcbf29ce484222325;  // hash of the empty text

// The hash of a text whose beginning has the hash `before`, followed by `text`.
constexpr uint64_t Fnv1a(std::string_view text, uint64_t before = kFnv1a) {
  for (const char c : text) before = (before ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return before;
}

}  // namespace plimsoll
