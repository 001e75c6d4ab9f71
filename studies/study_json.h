// study.json: the rows of a study with their comparisons, and the contents of the report page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "studies/compare.h"

namespace plimsoll::studies {

struct StudyFacts {
  std::string title;
  std::vector<std::string> groups = {};  // group of each row; empty if rows have no groups
  int64_t warmup = 0;
  std::vector<Row> rows = {};
  std::vector<RowFacts> facts = {};
  size_t baseline = 0;
  // Keys of the columns to show; empty means all columns with values.
  std::vector<std::string> columns = {};
};

// Builds {"title", "subtitle", "warning", "facts", "columns", "rows", "laws"}: the members of
// reports/study_page.h, and the results of CheckLaws() as "laws".
nlohmann::ordered_json StudyJson(const StudyFacts& study);

// True if every law that must hold does hold.
bool LawsHold(const nlohmann::ordered_json& study);

}  // namespace plimsoll::studies
