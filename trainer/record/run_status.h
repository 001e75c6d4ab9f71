// run.json of a run directory: the name and state of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

struct RunStatus {
  enum class State { kRunning, kDone, kStopped, kFailed };

  std::string name, notes;  // empty if the user gave none
  std::vector<std::string> tags;
  State state = State::kRunning;
  std::string reason;   // text: why the run ended
  int64_t steps = 0;    // the number of steps that the run will make
  int64_t started = 0;  // start of the last process, in seconds since 1970
  int64_t ended = 0;    // end, in seconds since 1970; 0 if the run has not ended, or was killed
  std::string resume_command;  // resumes from the newest snapshot; empty means unknown
};

const char* Name(RunStatus::State state);

// The status of a run that starts or continues now.
RunStatus StartedNow(const config::RunConfig& config, const std::string& resume_command);

std::string ToJson(const RunStatus& status);
// Reads run.json; nullopt if it is missing or unreadable.
std::optional<RunStatus> ReadRunStatus(const std::string& run_directory);

}  // namespace plimsoll::trainer
