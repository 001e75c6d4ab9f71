// Commit() is generated (base/BUILD), so that a new commit recompiles that one function only.
#include "base/version.h"

namespace plimsoll {

std::string_view Version() { return "0.1.0"; }

}  // namespace plimsoll
