// The rows of a study: every combination of variants and axes except the excluded ones, plus the
// included ones. Each row has the configuration and ranks of its run, or the reason why it cannot
// run.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "studies/compare.h"
#include "studies/study.h"
#include "trainer/config/load.h"

namespace plimsoll::studies {

// The seeds for the random numbers of a run.
struct RunSeeds {
  int64_t train = 0, model = 0, data = 0;

  std::string Text() const;  // "1337", or "train 1, model 2, data 1"
};
RunSeeds SeedsOf(const config::RunConfig& config);

struct StudyRow {
  std::string name;    // "bf16, policy=block"; unique
  std::string folder;  // "003-bf16-policy-block"
  KeyTrees settings;   // changes to the base, from the study, the variant and the axes
  std::string command;
  // The value of each axis, in the form that is shown: {"checkpointing.policy", "block"}.
  std::vector<std::pair<std::string, std::string>> axes;
  // The seeds of the row's runs, as keys set in addition to `settings`. A single empty element
  // means that the study sets no seeds.
  std::vector<KeyTrees> seeds = {{}};

  // The arguments of --set for a run with this seed.
  std::vector<std::string> Sets(size_t seed = 0) const;

  // ConfigureRows() sets the following members.
  int64_t ranks = 1;
  // Why the row cannot run: its configuration is impossible (Status::kInfeasible), or it names a
  // file that does not exist (kFailed). Empty if the row can run.
  std::string refused;
  Status refused_as = Status::kInfeasible;
  std::string resolved;     // complete configuration, except for the study's own keys
  bool has_arena = true;    // whether the run uses the planned arena, whose use can be checked
  bool calibrates = false;  // whether the run's choices depend on measurements of this machine
  bool on_gpu = false;
  RowFacts facts;
  std::vector<RunSeeds> run_seeds;  // resulting seeds, one element for each of `seeds`
};

// The rows in the order of the study file; the last axis varies fastest, and seeds are no axes
// here. `base` has the values of keys that a row doesn't set. Throws a UserError if no row is left,
// an exclusion matches nothing, two rows are equal, the baseline is no row, or there are more than
// 100,000 rows.
std::vector<StudyRow> ExpandGrid(const Study& study, const config::RunConfig& base);

// Whether the key changes no number that training computes (docs/how/ablations.md).
bool KeepsNumbers(const std::string& key);

// The facts about a run with this configuration on `ranks` ranks. Two runs with the same `numbers`
// compute the same numbers: they differ only in where bytes are and what is recomputed.
RowFacts FactsOf(const config::RunConfig& config, int64_t ranks);

// The setting for the length of a run: all steps, or fewer if another run has its curve
// (compare.h).
std::string StepsSet(int64_t steps);

// The program and its arguments for a run of the row with one of its seeds. `further` are more
// arguments of --set, which override the others.
std::vector<std::string> TrainArguments(const Study& study, const StudyRow& row, size_t seed,
                                        const std::vector<std::string>& further);

// Configures each row; a row that cannot run is marked and kept.
std::vector<StudyRow> ConfigureRows(const Study& study, std::vector<StudyRow> rows);

// A short text that identifies all rows and the way of measuring: two studies with the same text
// have the same runs.
std::string FingerprintOf(const Study& study, const std::vector<StudyRow>& rows);

}  // namespace plimsoll::studies
