// Suggestions for mistyped keys (did you mean …?): suggests the key that a mistyped or foreign key
// was probably meant to be.
#pragma once

#include <string>

namespace plimsoll::config {

// The key or section nearest to an unknown dotted path; empty if none is near.
std::string NearestKey(const std::string& path);

}  // namespace plimsoll::config
