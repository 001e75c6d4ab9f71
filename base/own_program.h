// The program that runs.
#pragma once

#include <string>

namespace plimsoll {

// Its path, links followed.
std::string OwnProgram();

}  // namespace plimsoll
