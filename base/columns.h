// Text in the columns of a terminal: one for each character of UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

size_t Columns(std::string_view text);

// The text, or, where it has more columns, its beginning and "…".
std::string Shortened(std::string_view text, size_t columns);

// The text with spaces turned into ends of lines so that no line has more columns, but for words
// that are longer. Lines from the second on begin with `indent`.
std::string Wrapped(std::string_view text, size_t columns, std::string_view indent);

}  // namespace plimsoll
