// A child process with a process group of its own, so that it ends with all that it started.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::studies {

struct ProcessOptions {
  std::vector<std::string> arguments;                                 // the program's path first
  std::string out, error;                                             // files for what it prints
  std::vector<std::pair<std::string, std::string>> environment = {};  // beside this process's
};

// How a process ended.
struct ProcessEnd {
  int exit_code = -1;  // -1: by a signal
  int signal = 0;
};

class Process {
 public:
  // UserError when there is no such program.
  explicit Process(const ProcessOptions& options);
  // Kills what still runs.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Nothing while it runs.
  std::optional<ProcessEnd> Poll();

  // Asks all of its group to end, and kills those that haven't after so many seconds.
  void End(double patience_seconds);

 private:
  pid_t pid_ = -1;
  std::optional<ProcessEnd> end_;
};

}  // namespace plimsoll::studies
