// study.json: the rows of a study with what was found, and what the report page is made of.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "studies/compare.h"
#include "studies/results.h"

namespace plimsoll::studies {

struct StudyFacts {
  std::string title;
  std::vector<std::string> groups;  // of each row; empty: none
  int64_t warmup = 0;
  std::vector<Row> rows;
  std::vector<RowFacts> facts;
  size_t baseline = 0;
};

// {"title", "subtitle", "warning", "facts", "columns", "rows", "laws"}: the members of
// reports/study_page.h and, beside them, CheckLaws().
nlohmann::ordered_json StudyJson(const StudyFacts& study);

// report.html: the same as a page, with the rows' memory over a step.
std::string StudyHtml(const nlohmann::ordered_json& json, const StudyFacts& study);

// Does every law hold that must?
bool LawsHold(const nlohmann::ordered_json& study);

// The table, and the laws below it.
std::string StudyText(const nlohmann::ordered_json& study);

}  // namespace plimsoll::studies
