// The figures of a row. They are the columns of the table and of study.csv, and members of
// study.json and the report page. To add a figure, add a line to the table in figures.cc.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "studies/compare.h"
#include "studies/results.h"

namespace plimsoll::studies {

// One row as an object with its figures and further members for the page (group, note, marks,
// bytes_by_role, curve, eval_curve). `rows` and `comparisons` are those of the study. If any row
// has several seeds, a figure that depends on seeds is the mean over them; next to it are
// KEY_deviation, the sample standard deviation (null for one run), and KEY_runs, the number of
// seeds. A comparison has KEY_low and KEY_high, its interval by the spreads of times or by seeds,
// if known. A comparison whose interval doesn't tell its direction has the mark "cannot tell: LOW
// to HIGH".
nlohmann::ordered_json RowJson(size_t index, const std::vector<Row>& rows,
                               const std::vector<Comparison>& comparisons,
                               const std::string& group);

// The keys of the columns in a list such as "name,loss,arena". The list names columns by their keys
// or by their labels. Throws a UserError if a column doesn't exist, or if it is named twice.
std::vector<std::string> ParseColumns(const std::string& list);

// The columns with the keys `chosen` or, if it is empty, the columns for which any row has a value:
// [{"key", "label", "unit"}, …]. If any row has a deviation, a column also has "deviation" and
// "runs", the names of the members to show next to the value.
nlohmann::ordered_json ColumnsOf(const nlohmann::ordered_json& rows,
                                 const std::vector<std::string>& chosen = {});

}  // namespace plimsoll::studies
