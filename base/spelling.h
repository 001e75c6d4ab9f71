// Names in messages: suggestions for misspelled names, and shortening of long names and lists.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// The number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into
// `b`.
int EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, if at most a third of the word is wrong; the first of several
// equally near. Empty: no candidate is near.
std::string NearestName(std::string_view word, const std::vector<std::string>& candidates);

// The text; if it has more than about 120 bytes, its beginning and end around "…".
std::string Shortened(const std::string& text);

// A list like "a, b and 7 more", with at most `most` of the names.
std::string ListOf(const std::vector<std::string>& names, size_t most);

}  // namespace plimsoll
