// `plimsoll runs`: the runs in a folder, and their states.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::trainer {

struct ListedRun {
  std::string path;  // in the form that other commands take
  std::string name, notes;
  std::vector<std::string> tags;
  std::string state;                // "running", "done", "stopped", "failed"
  std::string reason;               // of the end, in words; while it runs, the process
  std::optional<int64_t> snapshot;  // steps of its newest, of a run that was interrupted
  std::string resume_command = "";  // that resumes it; empty: none, or not known
  int64_t steps = 0;                // made
  std::optional<int64_t> of_steps;  // steps that the run is to make
  std::optional<double> loss, best_eval_loss;
  std::optional<double> tokens_per_s;   // median of the newest steps
  std::optional<int64_t> memory_bytes;  // of the process on a GPU, or the arena
  double changed = 0;                   // seconds since 1970: the last change of its metrics
};

// The runs in a folder and in its subfolders, the newest first; a run directory itself is one.
// Skips folders that are no run or cannot be read. UserError when there is no such folder.
std::vector<ListedRun> ListRuns(const std::string& folder);

// A table, each line cut to `columns` (0: whole), and below it the commands that resume the newest
// of the interrupted runs; or a list of objects. Ends with a newline.
std::string RunsTable(const std::vector<ListedRun>& runs, size_t columns);
std::string RunsJson(const std::vector<ListedRun>& runs);

}  // namespace plimsoll::trainer
