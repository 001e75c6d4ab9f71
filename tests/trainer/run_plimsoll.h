// Runs the plimsoll binary as a user would and collects its output.
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

// `arguments` follow the program's name. The binary comes from the test's data.
Outcome RunPlimsoll(const std::vector<std::string>& arguments);

// Runs a bash script, in which $PLIMSOLL is the binary: for redirections, limits and pipes. The
// outcome is the script's.
Outcome RunShell(const std::string& script);

// Like RunPlimsoll without waiting: returns the process, whose output goes to the files out and err
// in `folder`.
pid_t StartPlimsoll(const std::vector<std::string>& arguments, const std::string& folder);

}  // namespace plimsoll
