// Text in the columns of a terminal: one column for each UTF-8 character.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

// Of the longest line that the program prints.
inline constexpr size_t kLineColumns = 100;

size_t Columns(std::string_view text);

// The text, or, if it has more columns, its beginning and "…".
std::string Shortened(std::string_view text, size_t columns);

// The text with spaces replaced by line ends so that no line has more columns, except for single
// longer words. Lines after the first begin with `indent`.
std::string Wrapped(std::string_view text, size_t columns, std::string_view indent);

}  // namespace plimsoll
