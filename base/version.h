// The identity of this build: its release, and the commit from which it was made.
#pragma once

#include <string_view>

namespace plimsoll {

// The release, for example "0.1.0".
std::string_view Version();

// Abbreviated commit hash, with "-dirty" when tracked files differed from it; "unknown" when the
// build was made outside a git checkout.
std::string_view Commit();

}  // namespace plimsoll
