// What runs left behind, as one row of a table.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::studies {

// The whole file; empty when there is none.
std::string ReadText(const std::string& path);

enum class Status { kDone, kInfeasible, kFailed, kTimedOut, kBroken, kNotRun };
const char* Name(Status status);
// kNotRun for any other word.
Status ParseStatus(const std::string& name);

// How one run of a row ended: outcome.json in its directory.
struct Outcome {
  Status status = Status::kNotRun;
  std::string reason;  // why there is no result
  double seconds = 0;  // that it took, from start to end
};

nlohmann::ordered_json ToJson(const Outcome& outcome);
// Nothing when there is no such file, or it is no outcome.
std::optional<Outcome> ReadOutcome(const std::string& path);

// A row's figures. What is not known is absent.
struct Row {
  std::string name;
  Status status = Status::kNotRun;
  std::string note;  // why there is no result; what a reader should know besides
  int64_t runs = 0;
  std::vector<double> step_ms;                      // of all measured steps of all runs
  std::vector<double> medians;                      // of each run
  std::vector<std::vector<double>> losses;          // of each run, by step
  nlohmann::ordered_json summary;                   // of the first run: summary.json
  std::optional<int64_t> used_bytes;                // of the arena, by canaries
  std::optional<double> collective_ms, exposed_ms;  // a step
  nlohmann::ordered_json timeline;                  // memory_timeline.json; null: none

  // A member of the summary, where it is there and a number.
  std::optional<double> Figure(const char* key) const;
  std::optional<double> loss() const;  // the last one
  // What the run is compared by: the process on a GPU, what the allocator reserved, the arena.
  std::optional<double> peak_bytes() const;
};

// Adds the run in this directory, whose first `warmup` steps' times don't count. UserError when it
// holds no run that came to its end.
void AddRun(const std::string& directory, int64_t warmup, Row& row);

// Adds what another program printed: the last line of `output` that is a JSON object, with the
// members of summary.json, of which step_ms, in milliseconds, must be there: a number or a list.
// UserError when there is none.
void AddOutput(const std::string& output, Row& row);

}  // namespace plimsoll::studies
