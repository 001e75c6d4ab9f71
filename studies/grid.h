// Expands a study into its rows: every combination of variants and axes, except the excluded ones,
// and the included ones.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "studies/study.h"
#include "trainer/config/run_config.h"

namespace plimsoll::studies {

struct GridRow {
  std::string name;    // "bf16, policy=block"; unique
  std::string folder;  // "003-bf16-policy-block"
  KeyTrees settings;   // over the base: from the study, the variant and the axes
  std::string command;
  // The value of each axis, as shown: {"checkpointing.policy", "block"}.
  std::vector<std::pair<std::string, std::string>> axes;
  // The row's seeds: keys set in addition to `settings`. One empty member: there are none.
  std::vector<KeyTrees> seeds = {{}};

  // The arguments of --set, with one of the seeds.
  std::vector<std::string> Sets(size_t seed = 0) const;
};

// The arguments of --set for these keys and values.
std::vector<std::string> SetsOf(const KeyTrees& settings);

// True for the keys whose axis makes runs of one row rather than rows: train.seed, model.seed,
// data.seed.
bool IsSeed(const std::string& key);

// The number of rows, times their seeds, before `exclude` and `include`; capped at 10⁹.
int64_t GridSize(const Study& study);

// The rows in the order as written, with the axes (except seeds) in the order of counting. `base`
// has the values of keys that a row doesn't set. UserErrors: no row is left, an exclusion that
// matches nothing, rows that are given twice, a baseline that is no row, more than 100,000 rows.
std::vector<GridRow> ExpandGrid(const Study& study, const config::RunConfig& base);

}  // namespace plimsoll::studies
