// Lays out text in the columns of a terminal: each UTF-8 character takes one column.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

// The columns of the longest line that the program prints.
inline constexpr size_t kLineColumns = 100;

size_t Columns(std::string_view text);

// The text; if it has more than `columns`, its beginning followed by "…".
std::string Shortened(std::string_view text, size_t columns);

// The text with some spaces replaced by line ends, so that no line is longer than `columns`, except
// for single longer words. Lines after the first begin with `indent`.
std::string Wrapped(std::string_view text, size_t columns, std::string_view indent);

}  // namespace plimsoll
