// The run that each row of a grid stands for: its configuration and ranks, or why it cannot run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "studies/compare.h"
#include "studies/grid.h"
#include "trainer/config/load.h"

namespace plimsoll::studies {

// The seeds of a run's random numbers.
struct RunSeeds {
  int64_t train = 0, model = 0, data = 0;

  std::string Text() const;  // "1337", or "train 1, model 2, data 1"
};
RunSeeds SeedsOf(const config::RunConfig& config);

struct StudyRow : GridRow {
  explicit StudyRow(const GridRow& row) : GridRow(row) {}

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

// True if the key has no influence on any number that training computes (docs/ablations.md).
bool KeepsNumbers(const std::string& key);

// The facts about a run with this configuration on that many ranks. Two runs with the same
// `numbers` differ only in where bytes are and what is recomputed, and in no number.
RowFacts FactsOf(const config::RunConfig& config, int64_t ranks);

// The settings that the study adds to every run; they override the row's.
std::vector<std::string> MeasuringSets(const Study& study);
// The length of a run: to the end, or shorter if another run has its curve (shared_curves.h).
std::string StepsSet(int64_t steps);

// The program and its arguments for a run of the row with one of its seeds: `further` are arguments
// of --set that override the others.
std::vector<std::string> TrainArguments(const Study& study, const StudyRow& row, size_t seed,
                                        const std::vector<std::string>& further);

// Configures each row; a row that cannot run is marked and kept.
std::vector<StudyRow> ConfigureRows(const Study& study, const std::vector<GridRow>& grid);

// A short text for all rows and the way of measuring: two studies with the same text have the same
// runs.
std::string FingerprintOf(const Study& study, const std::vector<StudyRow>& rows);

}  // namespace plimsoll::studies
