// What each row of a grid comes to as a run: its configuration and ranks, or why it cannot be one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "studies/compare.h"
#include "studies/grid.h"
#include "trainer/config/load.h"

namespace plimsoll::studies {

struct StudyRow : GridRow {
  explicit StudyRow(const GridRow& row) : GridRow(row) {}

  int64_t ranks = 1;
  std::string refused;    // why the configuration is impossible; empty: it isn't
  std::string resolved;   // its whole configuration, but for what a study sets itself
  bool has_arena = true;  // it is on the planned arena, whose use can be checked
  RowFacts facts;
};

// Is that key without influence on any number that training computes (docs/ablations.md)?
bool KeepsNumbers(const std::string& key);

// What is known of a run with this configuration on so many ranks. What differs between two runs of
// the same `numbers` changes where bytes are and what is computed twice, and no number.
RowFacts FactsOf(const config::RunConfig& config, int64_t ranks);

// The study's own settings of every run, over the row's.
std::vector<std::string> MeasuringSets(const Study& study);

// Configures each row; a row that can't be is marked and stays.
std::vector<StudyRow> ConfigureRows(const Study& study, const std::vector<GridRow>& grid);

// What all rows and their measuring come to, as a short text: two studies with the same one have
// the same runs.
std::string FingerprintOf(const Study& study, const std::vector<StudyRow>& rows);

}  // namespace plimsoll::studies
