// The command that resumes an interrupted run, for its last message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::trainer {

// The shell command that resumes a run with this run file and these overrides: "plimsoll train
// run.yaml --set train.steps=100 --resume auto".
std::string ResumeCommand(const std::string& file, const std::vector<std::string>& sets);

// The number of steps of the newest complete snapshot in a run directory, if it has one.
std::optional<int64_t> NewestSnapshot(const std::string& run_directory);

// "COMMAND continues", with the number of ranks if there are several; only the option if the
// command is empty.
std::string ContinuesText(const std::string& command, int ranks);

}  // namespace plimsoll::trainer
