#include "studies/latex_table.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "studies/table.h"

namespace plimsoll::studies {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::pair<std::string_view, std::string_view>, 29> kEscapes = {{
    {"\\", "\\textbackslash{}"},
    {"{", "\\{"},
    {"}", "\\}"},
    {"$", "\\$"},
    {"&", "\\&"},
    {"#", "\\#"},
    {"%", "\\%"},
    {"_", "\\_"},
    {"~", "\\textasciitilde{}"},
    {"^", "\\textasciicircum{}"},
    {"<", "\\textless{}"},
    {">", "\\textgreater{}"},
    {"|", "\\textbar{}"},
    {"\"", "\\char34{}"},
    {"–", "--"},
    {"—", "---"},
    {"…", "\\dots{}"},
    {"×", "$\\times$"},
    {"±", "$\\pm$"},
    {"≤", "$\\le$"},
    {"≥", "$\\ge$"},
    {"·", "$\\cdot$"},
    {"µ", "$\\mu$"},
    {"→", "$\\to$"},
    {"−", "$-$"},
    {"\n", " "},
    {"\r", " "},
    {"\t", " "},
    {"∞", "$\\infty$"},
}};

// With minus signs for hyphens.
std::string WithMinus(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '-' ? std::string("−") : std::string(1, c);
  return out;
}

// After the end of a row, "[" and "*" would belong to it.
std::string AtStart(const std::string& cell) {
  if (!cell.starts_with('[') && !cell.starts_with('*')) return cell;
  return fmt::format("{{{}}}{}", cell.front(), cell.substr(1));
}

std::string Comment(const std::string& text) {
  std::string line = "% " + text;
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return line + "\n";
}

}  // namespace

std::string LatexText(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    size_t taken = 1;
    std::string_view written = rest.substr(0, 1);
    for (const auto& [from, to] : kEscapes) {
      if (!rest.starts_with(from)) continue;
      taken = from.size();
      written = to;
    }
    out += written;
    at += taken;
  }
  return out;
}

std::string LatexTable(const std::string& title, const ordered_json& rows,
                       const ordered_json& columns) {
  std::string kinds;
  for (const ordered_json& column : columns) kinds += column.at("unit") == "text" ? 'l' : 'r';
  std::string text = Comment(title) + Comment("\\usepackage{booktabs}") +
                     fmt::format("\\begin{{tabular}}{{{}}}\n\\toprule\n", kinds);
  const std::vector<std::vector<std::string>> lines = TableCells(rows, columns);
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string line;
    for (size_t j = 0; j < lines[i].size(); ++j) {
      const std::string& cell = lines[i][j];
      line += (j > 0 ? " & " : "") + LatexText(i > 0 && kinds[j] == 'r' ? WithMinus(cell) : cell);
    }
    text += AtStart(line) + " \\\\\n" + (i == 0 ? "\\midrule\n" : "");
  }
  text += "\\bottomrule\n\\end{tabular}\n";
  for (const ordered_json& row : rows) {
    if (!row.contains("note")) continue;
    text += Comment(row.at("name").get<std::string>() + ": " + row.at("note").get<std::string>());
  }
  return text;
}

}  // namespace plimsoll::studies
