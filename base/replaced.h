// Replaces parts of a text, to escape it or to fill in its blanks.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace plimsoll {

// A non-empty part of a text, and its replacement.
using Replacement = std::pair<std::string_view, std::string_view>;

// `text` with all parts replaced, in one pass: replacements are not searched. No part may be the
// beginning of another.
inline std::string Replaced(std::string_view text, std::initializer_list<Replacement> parts) {
  std::string out;
  while (!text.empty()) {
    const auto part = std::ranges::find_if(
        parts, [&](const Replacement& of) { return text.starts_with(of.first); });
    out += part == parts.end() ? text.substr(0, 1) : part->second;
    text.remove_prefix(part == parts.end() ? 1 : part->first.size());
  }
  return out;
}

}  // namespace plimsoll
