// Commit() is generated (base/BUILD), so that a new commit recompiles only that function.
#include "base/version.h"

namespace plimsoll {

std::string_view Version() { return "0.1.0"; }

}  // namespace plimsoll
