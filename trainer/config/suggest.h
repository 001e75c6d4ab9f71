// What a mistyped or foreign key was probably meant to be.
#pragma once

#include <string>

namespace plimsoll::config {

// The nearest key or section to an unknown dotted path; empty: nothing is near.
std::string NearestKey(const std::string& path);

// Insertions, deletions, substitutions and swaps of neighbours between two words.
int EditDistance(const std::string& a, const std::string& b);

}  // namespace plimsoll::config
