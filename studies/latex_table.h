// The rows for papers: a table of LaTeX's package booktabs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace plimsoll::studies {

// `text` with LaTeX's special characters escaped, on one line.
std::string LatexText(const std::string& text);

// A tabular with the cells of TableCells(), which a document can \input. Notes of rows follow
// as comments.
std::string LatexTable(const std::string& title, const nlohmann::ordered_json& rows,
                       const nlohmann::ordered_json& columns);

}  // namespace plimsoll::studies
