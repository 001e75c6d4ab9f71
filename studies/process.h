// A child process in its own process group, so that all processes that it started end with it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::studies {

struct ProcessOptions {
  std::vector<std::string> arguments;  // the program's path first
  std::string out, error;              // files for its output
  // Variables in addition to this process's.
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// How a process ended.
struct ProcessEnd {
  int exit_code = -1;  // -1 if a signal ended the process
  int signal = 0;
};

class Process {
 public:
  // Throws a UserError if the program doesn't exist.
  explicit Process(const ProcessOptions& options);
  // Kills the process group if it still runs.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // How the process ended; nullopt while it runs.
  std::optional<ProcessEnd> Poll();

  // Asks the process group to end, and kills the processes that remain after `patience_seconds`.
  void End(double patience_seconds);

 private:
  pid_t pid_ = -1;
  std::optional<ProcessEnd> end_;
};

}  // namespace plimsoll::studies
