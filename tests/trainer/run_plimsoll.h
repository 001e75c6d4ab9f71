// Runs the plimsoll binary as a user would and collects its output.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
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

// Expects that it ended with `exit_code`, and wrote all of `parts` to stderr. Returns `outcome`.
Outcome ExpectExit(int exit_code, Outcome outcome,
                   std::initializer_list<std::string_view> parts = {});

// Expects exit code 2, and one line on stderr that holds all of `parts`.
void ExpectRefusal(const Outcome& outcome, const std::vector<std::string>& parts);

// `arguments`, "--set" before each of `sets`, and `more`.
std::vector<std::string> WithSets(std::vector<std::string> arguments,
                                  const std::vector<std::string>& sets,
                                  const std::vector<std::string>& more = {});

// The values of a text that has one JSON value a line, such as metrics.jsonl.
std::vector<nlohmann::json> JsonLines(const std::string& text);

// Like RunPlimsoll without waiting: returns the process, whose output goes to the files out and err
// in `folder`.
pid_t StartPlimsoll(const std::vector<std::string>& arguments, const std::string& folder);

}  // namespace plimsoll
