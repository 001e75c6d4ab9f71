// Runs the plimsoll binary as a user would and collects what it said.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll {

struct Outcome {
  int exit_code = -1;  // -1: ended by a signal
  std::string out;
  std::string err;
  int64_t peak_resident_bytes = 0;  // the system's count for the whole process
};

// `arguments` after the program's name. The binary comes from the test's data.
Outcome RunPlimsoll(const std::vector<std::string>& arguments);

// A bash script, in which $PLIMSOLL is the binary: for redirections, limits and pipes. Its end is
// the script's.
Outcome RunShell(const std::string& script);

// The same as the first without waiting: returns the process, whose output goes to `folder`'s files
// out and err.
pid_t StartPlimsoll(const std::vector<std::string>& arguments, const std::string& folder);

}  // namespace plimsoll
