// Text for values of errno.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

namespace plimsoll {

// A text like "No space left on device", with advice for errors whose advice is always the same.
inline std::string ErrnoText(int error) {
  const bool limit = error == EMFILE;
  return std::string(std::strerror(error)) + (limit ? " (ulimit -n 1024 allows more)" : "");
}

}  // namespace plimsoll
