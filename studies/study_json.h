// study.json: the rows of a study with the comparisons, and the contents of the report page.
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
  std::vector<std::string> columns = {};  // keys of those to show; empty: what the rows fill
};

// {"title", "subtitle", "warning", "facts", "columns", "rows", "laws"}: the members of
// reports/study_page.h and the results of CheckLaws().
nlohmann::ordered_json StudyJson(const StudyFacts& study);

// study.csv: all members of the rows, or of chosen columns theirs.
std::string StudyCsv(const nlohmann::ordered_json& json, const StudyFacts& study);

// study.tex: the table for LaTeX (latex_table.h).
std::string StudyTex(const nlohmann::ordered_json& json);

// study.svg: memory against the time of a step (reports/study_page.h).
std::string StudySvg(const nlohmann::ordered_json& json);

// report.html: the same as a page, with a picture of each row's memory over a step.
std::string StudyHtml(const nlohmann::ordered_json& json, const StudyFacts& study);

// True if every law that must hold does hold.
bool LawsHold(const nlohmann::ordered_json& study);

// The table, with the laws below it.
std::string StudyText(const nlohmann::ordered_json& study);

}  // namespace plimsoll::studies
