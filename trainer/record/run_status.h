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

  std::string name, notes;  // empty: none
  std::vector<std::string> tags;
  State state = State::kRunning;
  std::string reason;          // of the end, in words
  int64_t steps = 0;           // that the run is to make
  int64_t started = 0;         // of the last process, in seconds since 1970
  int64_t ended = 0;           // 0: not yet, or it was killed
  std::string resume_command;  // that resumes from the newest snapshot; empty: not known
};

const char* Name(RunStatus::State state);

// The status of a run that starts or continues now.
RunStatus StartedNow(const config::RunConfig& config, const std::string& resume_command);

std::string ToJson(const RunStatus& status);
// Nothing when there is no readable status.
std::optional<RunStatus> ReadRunStatus(const std::string& run_directory);

}  // namespace plimsoll::trainer
