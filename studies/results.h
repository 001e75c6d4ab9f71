// Reads the results of runs, as one row of a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/record/run_metrics.h"

namespace plimsoll::studies {

// The content of a JSON file; null if it doesn't exist or holds no JSON.
nlohmann::ordered_json ReadJson(const std::string& path);

enum class Status { kDone, kInfeasible, kFailed, kTimedOut, kBroken, kUnfinished, kNotRun };
std::string_view Name(Status status);

// How one run of a row ended, as outcome.json in its directory stores it.
struct Outcome {
  Status status = Status::kNotRun;
  std::string reason;  // why there is no result
  double seconds = 0;  // duration of the run
  int64_t steps = 0;   // planned steps
};

nlohmann::ordered_json ToJson(const Outcome& outcome);
// The outcome; nullopt if the file doesn't exist or is invalid.
std::optional<Outcome> ReadOutcome(const std::string& path);

// The figures of a run. Unknown figures are absent.
struct Run {
  std::string seed;             // runs of one row with the same seed compute the same numbers
  std::vector<double> step_ms;  // the times of the measured steps
  std::vector<double> losses;   // loss of each step
  std::vector<trainer::Evaluation> evaluations;
  nlohmann::ordered_json summary;  // summary.json
  // The number of steps whose losses are the run's own; later losses are copied from a run that it
  // must equal (compare.h). nullopt if all losses are the run's own.
  std::optional<int64_t> own_steps;

  double median_ms() const;  // only for a run with steps
  // A member of the summary, if it exists and is a number.
  std::optional<double> Figure(const char* key) const;
  std::optional<double> loss() const;            // loss of the last step
  std::optional<double> eval_loss() const;       // last loss on held-out data
  std::optional<double> best_eval_loss() const;  // smallest loss on held-out data
};

struct Row {
  std::string name;
  Status status = Status::kNotRun;
  std::string note;                   // why the row has no result, or which keys had no effect
  std::vector<Run> runs;              // only the runs with results
  std::optional<int64_t> used_bytes;  // used bytes of the arena, found by canaries
  std::optional<double> collective_ms, exposed_ms;  // time per step
  // the content of memory_timeline.json; null if the file is missing
  nlohmann::ordered_json timeline;

  bool has_results() const { return !runs.empty(); }
  // Whether the row is done and can be compared.
  bool measured() const { return status == Status::kDone && has_results(); }
  // A figure of the first run, which represents all runs, since it cannot differ among them.
  std::optional<double> Figure(const char* key) const;
  // A member of the first run's summary; null if it is missing.
  nlohmann::ordered_json Member(const char* key) const;
  // The memory by which rows are compared: that of the process on the GPU, the allocator's
  // reservation, or the arena.
  std::optional<double> peak_bytes() const;
};

// Adds the run in this directory to the row, without the times of its first `warmup` steps. An
// unfinished run has its results so far, if it made at least one step; it makes the row
// kUnfinished, with a note on the number of steps made. A run that is done but made no step itself
// (it was resumed after its last step) has no results, and gets a note. A note also names a key
// that had no effect.
void AddRun(const std::string& directory, int64_t warmup, Row& row);

// Other programs can provide a row, too: their output must have a line of JSON with the members of
// summary.json.
//
// How much of the end of an output file is kept. A longer line cannot be a row.
constexpr size_t kKeptOutput = size_t{1} << 20;

// The last line of the file that is a JSON object with step_ms, or null. Needs no more memory than
// kKeptOutput for a file of any length.
nlohmann::ordered_json LastObject(const std::string& path);

// Throws a UserError naming the member if a figure is invalid. step_ms (the milliseconds of a step,
// a number or a list) must be present, finite and above 0. Other figures of kPositive, if present,
// must also be above 0.
void CheckOutput(const nlohmann::ordered_json& object);

// The run that the JSON object describes.
Run RunOf(const nlohmann::ordered_json& object, const std::string& seed);

// ReadTail reads the last `bytes` bytes of the file, from the start of a line. ReadHead reads the
// first `bytes` bytes.
std::string ReadTail(const std::string& path, size_t bytes = kKeptOutput);
std::string ReadHead(const std::string& path, size_t bytes = kKeptOutput);

// Truncates the file to the part that ReadTail reads.
void KeepTail(const std::string& path);

}  // namespace plimsoll::studies
