// Names in messages: suggestions for mistyped ones, and shortening of long ones and of long lists.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Insertions, deletions, substitutions and swaps of neighbours between two words.
int EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, if at most a third of the word is wrong; the first of several.
// Empty: none is near.
std::string NearestName(std::string_view word, const std::vector<std::string>& candidates);

// The text, or, if it has more than some 120 bytes, its beginning and end around "…".
std::string Shortened(const std::string& text);

// "a, b and 7 more": at most `most` of the names.
std::string ListOf(const std::vector<std::string>& names, size_t most);

}  // namespace plimsoll
