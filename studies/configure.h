// What each row of a grid comes to as a run: its configuration and ranks, or why it cannot be one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "studies/compare.h"
#include "studies/grid.h"
#include "trainer/config/load.h"

namespace plimsoll::studies {

// What a run draws its random numbers from.
struct RunSeeds {
  int64_t train = 0, model = 0, data = 0;

  std::string Text() const;  // "1337", or "train 1, model 2, data 1"
};
RunSeeds SeedsOf(const config::RunConfig& config);

struct StudyRow : GridRow {
  explicit StudyRow(const GridRow& row) : GridRow(row) {}

  int64_t ranks = 1;
  // Why it cannot run: the configuration is impossible (Status::kInfeasible), or names a file that
  // is not there (kFailed). Empty: it can.
  std::string refused;
  Status refused_as = Status::kInfeasible;
  std::string resolved;     // its whole configuration, but for what a study sets itself
  bool has_arena = true;    // it is on the planned arena, whose use can be checked
  bool calibrates = false;  // what it does depends on what has been measured on this machine
  bool on_gpu = false;
  RowFacts facts;
  std::vector<RunSeeds> run_seeds;  // what each of `seeds` comes to
};

// Is that key without influence on any number that training computes (docs/ablations.md)?
bool KeepsNumbers(const std::string& key);

// What is known of a run with this configuration on so many ranks. What differs between two runs of
// the same `numbers` changes where bytes are and what is computed twice, and no number.
RowFacts FactsOf(const config::RunConfig& config, int64_t ranks);

// The study's own settings of every run, over the row's.
std::vector<std::string> MeasuringSets(const Study& study);
// How far a run trains: to the end, or as far as one whose curve another has (shared_curves.h).
std::string StepsSet(int64_t steps);

// The program and its arguments for a run of the row with one of its seeds: `further` are
// arguments of --set over those above.
std::vector<std::string> TrainArguments(const Study& study, const StudyRow& row, size_t seed,
                                        const std::vector<std::string>& further);

// Configures each row; one that can't be is marked and stays.
std::vector<StudyRow> ConfigureRows(const Study& study, const std::vector<GridRow>& grid);

// What all rows and their measuring come to, as a short text: two studies with the same one have
// the same runs.
std::string FingerprintOf(const Study& study, const std::vector<StudyRow>& rows);

}  // namespace plimsoll::studies
