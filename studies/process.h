// A child process in a process group of its own, so that everything that it started ends with it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::studies {

struct ProcessOptions {
  std::vector<std::string> arguments;                                 // the program's path first
  std::string out, error;                                             // files for its output
  std::vector<std::pair<std::string, std::string>> environment = {};  // besides this process's
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
  // Kills the process group if it still runs.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Nothing while the process runs.
  std::optional<ProcessEnd> Poll();

  // Asks the whole group to end, and kills the processes that remain after `patience_seconds`.
  void End(double patience_seconds);

 private:
  pid_t pid_ = -1;
  std::optional<ProcessEnd> end_;
};

}  // namespace plimsoll::studies
