// The rows for people and for programs: the terminal's table and CSV.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "studies/compare.h"

namespace plimsoll::studies {

// The texts of a table's cells: its head, then a line for each row.
std::vector<std::vector<std::string>> TableCells(const nlohmann::ordered_json& rows,
                                                 const nlohmann::ordered_json& columns);

// An aligned table with a legend below, from the rows and columns of figures.h.
std::string TextTable(const nlohmann::ordered_json& rows, const nlohmann::ordered_json& columns);

// All scalar members of the rows or, of given columns, the members that these name, with a header
// line of their names (RFC 4180).
std::string Csv(const nlohmann::ordered_json& rows,
                const nlohmann::ordered_json& columns = nullptr);

nlohmann::ordered_json LawsJson(const std::vector<Law>& laws);

}  // namespace plimsoll::studies
