// What a mistyped or foreign key was probably meant to be.
#pragma once

#include <string>

namespace plimsoll::config {

// The nearest key or section to an unknown dotted path; empty: nothing is near.
std::string NearestKey(const std::string& path);

}  // namespace plimsoll::config
