// Quotes words of a command that the user is told to type.
#pragma once

#include <string>

namespace plimsoll {

// The word in the form that a POSIX shell reads back as `word`: quoted only if necessary.
std::string ShellQuoted(const std::string& word);

}  // namespace plimsoll
