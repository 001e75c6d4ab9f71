// From a study to its rows: every combination of variants and axes, without those excluded, and
// those included.
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
  KeyTrees settings;   // over the base: the study's, the variant's, the axes'
  std::string command;
  // The value that each axis has, as shown: {"checkpointing.policy", "block"}.
  std::vector<std::pair<std::string, std::string>> axes;
  // What the axes of seeds make of it: keys over `settings`. One empty member: there are none.
  std::vector<KeyTrees> seeds = {{}};

  // The arguments of --set, for one of the seeds.
  std::vector<std::string> Sets(size_t seed = 0) const;
};

// The arguments of --set that give these keys their values.
std::vector<std::string> SetsOf(const KeyTrees& settings);

// An axis over such a key makes runs of one row rather than rows: train.seed, model.seed,
// data.seed.
bool IsSeed(const std::string& key);

// How many rows, times their seeds, the grid would have before `exclude` and `include`; capped at
// 10⁹.
int64_t GridSize(const Study& study);

// In the order as written, axes running like the digits of a number, those of seeds apart. `base`
// says what a row has for keys that it doesn't set. UserErrors: nothing is left, an exclusion that
// matches nothing, rows that are given twice, a baseline that is none of them, more than 100,000
// rows.
std::vector<GridRow> ExpandGrid(const Study& study, const config::RunConfig& base);

}  // namespace plimsoll::studies
