// Reads the results of runs as one row of a table.
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

// null when there is no such file, or it holds no JSON.
nlohmann::ordered_json ReadJson(const std::string& path);

enum class Status { kDone, kInfeasible, kFailed, kTimedOut, kBroken, kUnfinished, kNotRun };
std::string_view Name(Status status);

// The end of one run of a row: outcome.json in its directory.
struct Outcome {
  Status status = Status::kNotRun;
  std::string reason;  // why there is no result
  double seconds = 0;  // that it took, from start to end
  int64_t steps = 0;   // planned steps
};

nlohmann::ordered_json ToJson(const Outcome& outcome);
// Nothing when there is no such file, or it is not valid.
std::optional<Outcome> ReadOutcome(const std::string& path);

// A run's figures. Unknown figures are absent.
struct Run {
  std::string seed;             // runs of one row with the same seed compute the same numbers
  std::vector<double> step_ms;  // of the measured steps
  std::vector<double> losses;   // by step
  std::vector<trainer::Evaluation> evaluations;
  nlohmann::ordered_json summary;  // summary.json
  // The number of steps whose losses are its own; the others are copied from a run that it must
  // equal (compare.h). Nothing: all are its own.
  std::optional<int64_t> own_steps;

  double median_ms() const;  // of a run with steps
  // A member of the summary, if it exists and is a number.
  std::optional<double> Figure(const char* key) const;
  std::optional<double> loss() const;            // the last one
  std::optional<double> eval_loss() const;       // held out, the last one
  std::optional<double> best_eval_loss() const;  // held out, the smallest
};

struct Row {
  std::string name;
  Status status = Status::kNotRun;
  std::string note;                                 // why there is no result; what had no effect
  std::vector<Run> runs;                            // only those with results
  std::optional<int64_t> used_bytes;                // of the arena, by canaries
  std::optional<double> collective_ms, exposed_ms;  // a step
  nlohmann::ordered_json timeline;                  // memory_timeline.json; null: none

  bool has_results() const { return !runs.empty(); }
  // Whether it is done and can be compared.
  bool measured() const { return status == Status::kDone && has_results(); }
  // From the first run, which stands for all runs where they cannot differ.
  std::optional<double> Figure(const char* key) const;
  nlohmann::ordered_json Member(const char* key) const;  // of its summary; null: there is none
  // The memory by which rows are compared: the GPU process's, the allocator's reservation, or the
  // arena.
  std::optional<double> peak_bytes() const;
};

// Adds the run in this directory, without the times of its first `warmup` steps. An unfinished run
// has the results so far, if that is at least one step, and makes the row kUnfinished, with a note
// that says how far it came. One that is done without a step of its own (it was resumed after its
// last one) has no results, and a note says so. A note also names a key that had no effect.
void AddRun(const std::string& directory, int64_t warmup, Row& row);

// The output of other programs that serves as a row: a line of JSON with the members of
// summary.json.
//
// The part kept of an output file, and the longest line that can be a row.
constexpr size_t kKeptOutput = size_t{1} << 20;

// The last line of the file that is a JSON object with step_ms, or null; needs no more memory than
// kKeptOutput for a file of any length.
nlohmann::ordered_json LastObject(const std::string& path);

// UserError, naming the member, for an invalid figure: step_ms, the milliseconds of a step, a
// number or a list, must be present, finite and above 0; so must other such figures, if present.
void CheckOutput(const nlohmann::ordered_json& object);

// The run that the object describes.
Run RunOf(const nlohmann::ordered_json& object, const std::string& seed);

// The last `bytes` bytes of the file, from the start of a line; ReadHead: the first.
std::string ReadTail(const std::string& path, size_t bytes = kKeptOutput);
std::string ReadHead(const std::string& path, size_t bytes = kKeptOutput);

// Truncates the file to its tail.
void KeepTail(const std::string& path);

}  // namespace plimsoll::studies
