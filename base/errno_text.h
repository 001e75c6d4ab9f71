// What errno says.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

namespace plimsoll {

// "No space left on device"; with the way out where each place has the same.
inline std::string ErrnoText(int error) {
  const bool limit = error == EMFILE;
  return std::string(std::strerror(error)) + (limit ? " (ulimit -n 1024 allows more)" : "");
}

}  // namespace plimsoll
