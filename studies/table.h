// Rows as people and programs read them: the terminal's table, CSV, and JSON (also what the report
// page is made of, reports/study_page.h).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "studies/compare.h"
#include "studies/results.h"

namespace plimsoll::studies {

// One row: an object whose members are the columns, and the page's further ones (group, note,
// bytes_by_role, curve). `rows` and `comparisons` are all of them.
nlohmann::ordered_json RowJson(size_t index, const std::vector<Row>& rows,
                               const std::vector<Comparison>& comparisons,
                               const std::string& group);

// The columns that any of the rows fills: [{"key", "label", "unit"}, …].
nlohmann::ordered_json ColumnsOf(const nlohmann::ordered_json& rows);

// Aligned, with a legend below; `rows` and `columns` as above.
std::string TextTable(const nlohmann::ordered_json& rows, const nlohmann::ordered_json& columns);

// All scalar members of the rows, with a line of their names (RFC 4180).
std::string Csv(const nlohmann::ordered_json& rows);

nlohmann::ordered_json LawsJson(const std::vector<Law>& laws);

}  // namespace plimsoll::studies
