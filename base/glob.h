// Shell-style patterns for names of tensors, parameters and ops.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

// Whether the complete name matches. '*' matches any characters, '?' exactly one.
bool MatchesGlob(std::string_view pattern, std::string_view name);
bool MatchesAnyGlob(std::span<const std::string> patterns, std::string_view name);

}  // namespace plimsoll
