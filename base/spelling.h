// Names in messages: suggestions for those that were mistyped, and long ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Insertions, deletions, substitutions and swaps of neighbours between two words.
int EditDistance(std::string_view a, std::string_view b);

// The candidate that is nearest to `word`, where at most a third of the word is wrong; the first of
// several. Empty: none is near.
std::string NearestName(std::string_view word, const std::vector<std::string>& candidates);

// The text, or, where it has more than some 120 bytes, its begin and end around "…".
std::string Shortened(const std::string& text);

}  // namespace plimsoll
