// What runs left behind, as one row of a table.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/record/run_metrics.h"

namespace plimsoll::studies {

// The whole file; empty when there is none.
std::string ReadText(const std::string& path);
// null where there is no such file, or no JSON in it.
nlohmann::ordered_json ReadJson(const std::string& path);

enum class Status { kDone, kInfeasible, kFailed, kTimedOut, kBroken, kUnfinished, kNotRun };
const char* Name(Status status);
// kNotRun for any other word.
Status ParseStatus(const std::string& name);

// How one run of a row ended: outcome.json in its directory.
struct Outcome {
  Status status = Status::kNotRun;
  std::string reason;  // why there is no result
  double seconds = 0;  // that it took, from start to end
  int64_t steps = 0;   // that it was to make
};

nlohmann::ordered_json ToJson(const Outcome& outcome);
// Nothing when there is no such file, or it is no outcome.
std::optional<Outcome> ReadOutcome(const std::string& path);

// A run's figures. What is not known is absent.
struct Run {
  std::string seed;             // runs of one row with the same one compute the same numbers
  std::vector<double> step_ms;  // of the measured steps
  std::vector<double> losses;   // by step
  std::vector<trainer::Evaluation> evaluations;
  nlohmann::ordered_json summary;  // summary.json
  // Over how many steps its losses are its own; the rest is another run's, which it has to equal
  // (shared_curves.h). Nothing: all are its own.
  std::optional<int64_t> own_steps;

  double median_ms() const;  // of a run with steps
  // A member of the summary, where it is there and a number.
  std::optional<double> Figure(const char* key) const;
  std::optional<double> loss() const;            // the last one
  std::optional<double> eval_loss() const;       // held out, the last one
  std::optional<double> best_eval_loss() const;  // held out, the least
};

struct Row {
  std::string name;
  Status status = Status::kNotRun;
  std::string note;                                 // why there is no result
  std::vector<Run> runs;                            // those that have results
  std::optional<int64_t> used_bytes;                // of the arena, by canaries
  std::optional<double> collective_ms, exposed_ms;  // a step
  nlohmann::ordered_json timeline;                  // memory_timeline.json; null: none

  bool has_results() const { return !runs.empty(); }
  // Of the first run, which stands for all where they cannot differ.
  std::optional<double> Figure(const char* key) const;
  nlohmann::ordered_json Member(const char* key) const;  // of its summary; null: there is none
  // What the run is compared by: the process on a GPU, what the allocator reserved, the arena.
  std::optional<double> peak_bytes() const;
};

// Adds the run in this directory, whose first `warmup` steps' times don't count. A run that has not
// come to its end has what it has so far, if that is a step, and makes the row kUnfinished, whose
// note says how far it came.
void AddRun(const std::string& directory, int64_t warmup, Row& row);

}  // namespace plimsoll::studies
