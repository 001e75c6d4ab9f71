// The figures of a row: what the table's columns, study.csv, study.json and the report page hold.
// A further figure is a line in the table of figures.cc.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "studies/compare.h"
#include "studies/results.h"

namespace plimsoll::studies {

// One row: an object whose members are its figures, and the page's further ones (group, note,
// marks, bytes_by_role, curve, eval_curve). `rows` and `comparisons` are all of them. With seeds
// (any row has runs of several) a figure that depends on them is their mean, and KEY_deviation and
// KEY_runs stand beside it: the sample standard deviation, null for one run, and how many.
nlohmann::ordered_json RowJson(size_t index, const std::vector<Row>& rows,
                               const std::vector<Comparison>& comparisons,
                               const std::string& group);

// The columns that any of the rows fills: [{"key", "label", "unit"}, …], with "deviation" and
// "runs", the members beside the value, where any row has them.
nlohmann::ordered_json ColumnsOf(const nlohmann::ordered_json& rows);

}  // namespace plimsoll::studies
