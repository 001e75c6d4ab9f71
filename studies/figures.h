// The figures of a row: the contents of the table's columns, study.csv, study.json and the report
// page. To add a figure, add a line to the table in figures.cc.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "studies/compare.h"
#include "studies/results.h"

namespace plimsoll::studies {

// One row: an object with its figures and further members for the page (group, note, marks,
// bytes_by_role, curve, eval_curve). `rows` and `comparisons` are all of them. With seeds (any row
// has runs of several) a figure that depends on them is their mean, with KEY_deviation and KEY_runs
// next to it: the sample standard deviation, null for one run, and the number of seeds. A
// comparison has KEY_low and KEY_high, if they are known: where it lies, by the spreads of times or
// by seeds. One of which they don't tell the direction has the mark "cannot tell: LOW to HIGH".
nlohmann::ordered_json RowJson(size_t index, const std::vector<Row>& rows,
                               const std::vector<Comparison>& comparisons,
                               const std::string& group);

// The keys of the columns in a list such as "name,loss,arena", which names them by their keys or as
// the table's head does. UserError if there is no such column, or one is named twice.
std::vector<std::string> ParseColumns(const std::string& list);

// The columns with these keys or, without any, those that any of the rows fills: [{"key", "label",
// "unit"}, …]; with "deviation" and "runs", which name the members next to the value, if any row
// has them.
nlohmann::ordered_json ColumnsOf(const nlohmann::ordered_json& rows,
                                 const std::vector<std::string>& chosen = {});

}  // namespace plimsoll::studies
