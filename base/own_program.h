// The running program.
#pragma once

#include <string>

namespace plimsoll {

// Its path, with symbolic links resolved.
std::string OwnProgram();

}  // namespace plimsoll
