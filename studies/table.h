// Rows as people and programs read them: the terminal's table and CSV.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "studies/compare.h"

namespace plimsoll::studies {

// Aligned, with a legend below; of rows and columns of figures.h.
std::string TextTable(const nlohmann::ordered_json& rows, const nlohmann::ordered_json& columns);

// All scalar members of the rows, with a line of their names (RFC 4180).
std::string Csv(const nlohmann::ordered_json& rows);

nlohmann::ordered_json LawsJson(const std::vector<Law>& laws);

}  // namespace plimsoll::studies
