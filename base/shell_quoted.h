// Words of a command that is shown to be typed.
#pragma once

#include <string>

namespace plimsoll {

// The word as a POSIX shell reads it back: quoted only where it has to be.
std::string ShellQuoted(const std::string& word);

}  // namespace plimsoll
