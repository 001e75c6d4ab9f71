// A study: a run file and the variations of it to compare. See docs/ablations.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/overrides.h"

namespace plimsoll::studies {

// The changes that a variant makes: dotted key → value as written. kNull removes the base's value.
using config::KeyTrees;

// A named variation of the run.
struct Variant {
  std::string name;
  std::string origin;  // "study.yaml:12"
  KeyTrees settings;
  // A shell command that runs in place of Plimsoll and prints a summary as JSON. Empty means that
  // Plimsoll runs.
  std::string command;
};

// A key and the values that rows take in turn.
struct Axis {
  std::string key;
  std::string origin;
  std::vector<config::Tree> values;
};

// Keys and their values: a combination to include, or the common part of combinations to exclude.
struct Combination {
  std::string origin;
  KeyTrees settings;
};

struct Measure {
  int64_t warmup = 3;  // number of first steps that are not timed
  int64_t steps = 20;  // timed steps, after the warm-up
  // Steps between evaluations; 0 means no evaluation, nullopt only one at the end.
  std::optional<int64_t> eval_every;
  bool check_arena = true;
  bool profile = false;
  bool repeat_unsteady = true;  // repeat runs that vary by more than kSteady (compare.h)

  int64_t all_steps() const { return warmup + steps; }
  int64_t EvalEvery() const { return eval_every.value_or(all_steps()); }
};

// Limits beyond which the result of a finished run is invalid. nullopt means no limit.
struct Broken {
  std::optional<double> loss_above;
  // Limit for the difference from the baseline, relative to its loss.
  std::optional<double> loss_difference;
  std::optional<double> seconds;  // time after which the run is ended
};

struct Launch {
  std::optional<int64_t> ranks;  // nullopt means that the mesh of each variation decides
  std::string mpirun = "mpirun -np {ranks}";
};

enum class RunOrder { kShuffled, kWritten };

struct Study {
  std::string file;  // path as the user gave it
  std::string title;
  std::string base;  // path of the base run file
  std::string dir;
  KeyTrees settings;  // changes to the base in all variations
  std::vector<Variant> variants;
  std::vector<Axis> axes;
  std::vector<Combination> include, exclude;
  std::string baseline;         // a row's name; empty means the first row
  std::string baseline_origin;  // position of the key `baseline` in the file
  int64_t repeats = 1;
  RunOrder order = RunOrder::kShuffled;
  int64_t order_seed = 1;
  Measure measure;
  Broken broken;
  Launch launch;
};

// Parses a study file's text. UserErrors have one line: "study.yaml:12: axes.amp.dtpye: unknown
// key, did you mean amp.dtype?". Opens no other file.
Study ParseStudy(const std::string& text, const std::string& name);

// The keys of a study file as the table in docs/ablations.md.
std::string StudyReference();

}  // namespace plimsoll::studies
