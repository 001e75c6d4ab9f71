// The identity of this build: its release, and the commit of its sources.
#pragma once

#include <string_view>

namespace plimsoll {

// The release, for example "0.1.0".
std::string_view Version();

// The abbreviated hash of the commit, with "-dirty" if tracked files differed from the commit;
// "unknown" if the build was made outside a git checkout.
std::string_view Commit();

}  // namespace plimsoll
