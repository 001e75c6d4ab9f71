// run.json of a run directory: what a run is called and how it stands.
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
  std::string reason;   // for the end, in words
  int64_t steps = 0;    // that it is to make
  int64_t started = 0;  // seconds since 1970; of the process that was the last
  int64_t ended = 0;    // 0: not yet, or it was killed
};

const char* Name(RunStatus::State state);

// Of a run that starts now, or goes on.
RunStatus StartedNow(const config::RunConfig& config);

std::string ToJson(const RunStatus& status);
// Nothing where there is none that can be read.
std::optional<RunStatus> ReadRunStatus(const std::string& run_directory);

}  // namespace plimsoll::trainer
