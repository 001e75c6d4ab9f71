// The rows of a study: every combination of variants and axes, except the excluded ones, and the
// included ones. For each row: its run's configuration and ranks, or why it cannot run.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "studies/compare.h"
#include "studies/study.h"
#include "trainer/config/load.h"

namespace plimsoll::studies {

// The seeds of a run's random numbers.
struct RunSeeds {
  int64_t train = 0, model = 0, data = 0;

  std::string Text() const;  // "1337", or "train 1, model 2, data 1"
};
RunSeeds SeedsOf(const config::RunConfig& config);

struct StudyRow {
  std::string name;    // "bf16, policy=block"; unique
  std::string folder;  // "003-bf16-policy-block"
  KeyTrees settings;   // over the base: from the study, the variant and the axes
  std::string command;
  // The value of each axis, as shown: {"checkpointing.policy", "block"}.
  std::vector<std::pair<std::string, std::string>> axes;
  // The row's seeds: keys set in addition to `settings`. One empty member: no seeds.
  std::vector<KeyTrees> seeds = {{}};

  // The arguments of --set, with one of the seeds.
  std::vector<std::string> Sets(size_t seed = 0) const;

  // The following is what ConfigureRows() finds out.
  int64_t ranks = 1;
  // Why the row cannot run: the configuration is impossible (Status::kInfeasible), or names a file
  // that does not exist (kFailed). Empty: it can run.
  std::string refused;
  Status refused_as = Status::kInfeasible;
  std::string resolved;     // its whole configuration, except for the study's own keys
  bool has_arena = true;    // it uses the planned arena, whose use can be checked
  bool calibrates = false;  // its choices depend on measurements of this machine
  bool on_gpu = false;
  RowFacts facts;
  std::vector<RunSeeds> run_seeds;  // the resulting seeds for each of `seeds`
};

// The rows in the order as written, with the axes (except seeds) in the order of counting. `base`
// has the values of keys that a row doesn't set. UserErrors: no row is left, an exclusion that
// matches nothing, rows that are given twice, a baseline that is no row, more than 100,000 rows.
std::vector<StudyRow> ExpandGrid(const Study& study, const config::RunConfig& base);

// True if the key has no influence on any number that training computes (docs/how/ablations.md).
bool KeepsNumbers(const std::string& key);

// The facts about a run with this configuration on that many ranks. Two runs with the same
// `numbers` differ only in where bytes are and what is recomputed, and in no number.
RowFacts FactsOf(const config::RunConfig& config, int64_t ranks);

// The length of a run: to the end, or shorter if another run has its curve (compare.h).
std::string StepsSet(int64_t steps);

// The program and its arguments for a run of the row with one of its seeds: `further` are arguments
// of --set that override the others.
std::vector<std::string> TrainArguments(const Study& study, const StudyRow& row, size_t seed,
                                        const std::vector<std::string>& further);

// Configures each row; a row that cannot run is marked and kept.
std::vector<StudyRow> ConfigureRows(const Study& study, std::vector<StudyRow> rows);

// A short text for all rows and the way of measuring: two studies with the same text have the same
// runs.
std::string FingerprintOf(const Study& study, const std::vector<StudyRow>& rows);

}  // namespace plimsoll::studies
