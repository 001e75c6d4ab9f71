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
  Settings settings;   // over the base: the study's, the variant's, the axes'
  std::string command;
  // The value that each axis has, as shown: {"checkpointing.policy", "block"}.
  std::vector<std::pair<std::string, std::string>> axes;

  // The arguments of --set.
  std::vector<std::string> Sets() const;
};

// How many rows the grid would have before `exclude` and `include`; capped at 10⁹.
int64_t GridSize(const Study& study);

// In the order as written, axes running like the digits of a number. `base` says what a row has for
// keys that it doesn't set. UserErrors: nothing is left, an exclusion that matches nothing, rows
// that are given twice, a baseline that is none of them, more than 100,000 rows.
std::vector<GridRow> ExpandGrid(const Study& study, const config::RunConfig& base);

}  // namespace plimsoll::studies
