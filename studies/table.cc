#include "studies/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/replaced.h"
#include "reports/metric_files.h"
#include "reports/study_page.h"
#include "reports/timeline_views.h"

namespace plimsoll::studies {
namespace {

using nlohmann::ordered_json;
using Cells = std::vector<std::vector<std::string>>;

bool IsDifference(const std::string& key) { return key.ends_with("_difference"); }

std::string Number(const std::string& key, const std::string& unit, double number) {
  if (unit == "bytes") return FormatBytes(std::llround(number));
  if (unit == "ms") return fmt::format("{:.4g}", number);
  if (unit == "joules") return fmt::format("{:.4g} J", number);
  if (unit == "percent") return fmt::format("{:.1f} %", number * 100);
  if (unit == "integer") return fmt::format("{:.0f}", number);
  if (unit == "count") return FormatCount(number);
  if (key.starts_with("speedup")) return fmt::format("{:.3f}", number);
  if (IsDifference(key)) return number == 0 ? "0" : fmt::format("{:+.1e}", number);
  return fmt::format("{:.6g}", number);
}

// The text of a figure, with its deviation over seeds and the number of seeds if the row has these.
std::string WithDeviation(const ordered_json& row, const ordered_json& column, double number) {
  const auto key = column.at("key").get<std::string>();
  const auto member = [&](const char* name) {
    return column.contains(name) ? row.value(column.at(name).get<std::string>(), ordered_json())
                                 : ordered_json();
  };
  const ordered_json deviation = member("deviation"), runs = member("runs");
  std::string text = Number(key, column.at("unit"), number);
  if (!runs.is_number()) return text;
  if (deviation.is_number() && deviation.get<double>() > 0) {
    text = FormatWithDeviation(number, deviation.get<double>(), IsDifference(key));
  } else if (deviation.is_number()) {
    text += " ± 0";
  }
  return fmt::format("{} ({})", text, runs.get<int64_t>());
}

// The interval of a comparison whose direction cannot be told: " (0.984 to 1.021)".
std::string Possible(const ordered_json& row, const std::string& key) {
  const ordered_json low = row.value(key + "_low", ordered_json()),
                     high = row.value(key + "_high", ordered_json());
  if (!low.is_number() || !high.is_number()) return "";
  return fmt::format(" ({} to {})", Number(key, "number", low.get<double>()),
                     Number(key, "number", high.get<double>()));
}

std::string Cell(const ordered_json& row, const ordered_json& column) {
  const auto key = column.at("key").get<std::string>();
  const ordered_json value = row.value(key, ordered_json());
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  const std::string text = WithDeviation(row, column, value.get<double>());
  const bool compared = key == "speedup" || IsDifference(key);
  const bool untold = compared && row.contains("marks") && row.at("marks").contains(key);
  return untold ? "~" + text + Possible(row, key) : text;
}

// The number of columns on a terminal; each of our characters takes one column.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// The keys of all scalar members, in the order in which they first appear in the rows.
std::vector<std::string> ScalarKeys(const ordered_json& rows) {
  std::vector<std::string> keys;
  for (const ordered_json& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (value.is_structured() || std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      keys.push_back(key);
    }
  }
  return keys;
}

// The keys of the members that the columns show.
std::vector<std::string> KeysOf(const ordered_json& columns) {
  std::vector<std::string> keys;
  for (const ordered_json& column : columns) {
    for (const char* member : {"key", "deviation", "runs"}) {
      if (column.contains(member)) keys.push_back(column.at(member).get<std::string>());
    }
  }
  return keys;
}

// The texts of a table's cells: a line of heads, then a line for each row.
Cells TableCells(const ordered_json& rows, const ordered_json& columns) {
  Cells lines(1);
  for (const ordered_json& column : columns) {
    const auto unit = column.at("unit").get<std::string>();
    lines[0].push_back(column.at("label").get<std::string>() + (unit == "ms" ? " ms" : ""));
  }
  for (const ordered_json& row : rows) {
    lines.emplace_back();
    for (const ordered_json& column : columns) lines.back().push_back(Cell(row, column));
  }
  return lines;
}

// Characters that have a meaning in LaTeX, and their replacements.
const std::initializer_list<Replacement> kEscapes = {
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
};

// Protects "[" and "*" at the start of a row: after the end of a row, LaTeX would read them as its
// arguments.
std::string AtStart(const std::string& cell) {
  if (!cell.starts_with('[') && !cell.starts_with('*')) return cell;
  return fmt::format("{{{}}}{}", cell.front(), cell.substr(1));
}

std::string Comment(const std::string& text) {
  return "% " + Replaced(text, {{"\n", " "}, {"\r", " "}}) + "\n";
}

// "NAME: NOTE" for each row that has a note.
std::vector<std::string> NotesOf(const ordered_json& rows) {
  std::vector<std::string> notes;
  for (const ordered_json& row : rows) {
    if (!row.contains("note")) continue;
    notes.push_back(row.at("name").get<std::string>() + ": " + row.at("note").get<std::string>());
  }
  return notes;
}

// An aligned table, followed by a legend.
std::string TextTable(const ordered_json& rows, const ordered_json& columns) {
  const Cells lines = TableCells(rows, columns);
  std::vector<size_t> widths(columns.size());
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], Width(line[i]));
  }
  std::string text;
  for (const auto& line : lines) {
    std::string aligned;
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string space(widths[i] - Width(line[i]), ' ');
      const bool left = columns[i].at("unit") == "text";
      aligned += (i > 0 ? "  " : "") + (left ? line[i] + space : space + line[i]);
    }
    aligned.erase(aligned.find_last_not_of(' ') + 1);
    text += aligned + "\n";
  }
  for (const std::string& note : NotesOf(rows)) text += note + "\n";
  text +=
      "step: the median of all measured steps; from, to: their quartiles and those of the runs' "
      "medians.\nvaries: the range between these quartiles as a share of the median.\n"
      "speed: tokens (or samples) a second against the baseline's; ~: cannot tell, since the "
      "spreads overlap; the possible range follows.\n";
  const bool seeds = std::any_of(columns.begin(), columns.end(), [](const ordered_json& column) {
    return column.contains("runs");
  });
  if (seeds) {
    text +=
        "losses: mean ± sample standard deviation (number of seeds); differences from the baseline "
        "are of pairs of runs with the same seed; ~: cannot tell, since the 95 % interval of their "
        "mean, which follows, includes 0.\n";
  }
  return text;
}

// The same cells as a LaTeX tabular (package booktabs), which a document can \input. Notes of rows
// follow as comments.
std::string LatexTable(const std::string& title, const ordered_json& rows,
                       const ordered_json& columns) {
  std::string kinds;
  for (const ordered_json& column : columns) kinds += column.at("unit") == "text" ? 'l' : 'r';
  std::string text = Comment(title) + Comment("\\usepackage{booktabs}") +
                     fmt::format("\\begin{{tabular}}{{{}}}\n\\toprule\n", kinds);
  const Cells lines = TableCells(rows, columns);
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string line;
    for (size_t j = 0; j < lines[i].size(); ++j) {
      const std::string& cell = lines[i][j];
      line += (j > 0 ? " & " : "") +
              LatexText(i > 0 && kinds[j] == 'r' ? Replaced(cell, {{"-", "−"}}) : cell);
    }
    text += AtStart(line) + " \\\\\n" + (i == 0 ? "\\midrule\n" : "");
  }
  text += "\\bottomrule\n\\end{tabular}\n";
  for (const std::string& note : NotesOf(rows)) text += Comment(note);
  return text;
}

// CSV (RFC 4180) with a header line: the scalar members of the rows, or only those of `columns` if
// given.
std::string Csv(const ordered_json& rows, const ordered_json& columns) {
  const std::vector<std::string> keys = columns.is_null() ? ScalarKeys(rows) : KeysOf(columns);
  ordered_json head;
  for (const std::string& key : keys) head[key] = key;
  const auto line = [&](const ordered_json& row) {
    std::string text;
    for (const std::string& key : keys) {
      const auto cell = row.find(key);
      if (&key != &keys.front()) text += ",";
      if (cell != row.end() && !cell->is_structured()) text += reports::CsvCell(*cell);
    }
    return text + "\n";
  };
  std::string text = line(head);
  for (const ordered_json& row : rows) text += line(row);
  return text;
}

// The number of nodes shown in a timeline, which is one small picture of many.
constexpr size_t kSamples = 160;
std::string LawText(const ordered_json& law) {
  const auto broken = law.at("broken").get<std::vector<std::string>>(),
             untold = law.at("untold").get<std::vector<std::string>>();
  std::string text = broken.empty() ? fmt::format("checked {}, holds",
                                                  Counted(law.at("checked").get<int>(), "time"))
                                    : "BROKEN " + Counted(broken.size(), "time");
  if (!untold.empty())
    text += fmt::format("; {} not told, since times vary", Counted(untold.size(), "time"));
  for (const std::string& sentence : broken) text += "\n  " + sentence;
  return text;
}

// True if the law applied to any row.
bool Applies(const ordered_json& law) {
  return law.at("checked").get<int>() > 0 || !law.at("untold").empty();
}

// The HTML page of the study, with a picture of each row's memory over a step.
std::string Html(const ordered_json& json, const StudyFacts& study) {
  ordered_json page = json;
  for (const ordered_json& law : json.at("laws")) {
    if (Applies(law)) page["facts"].push_back({law.at("law"), LawText(law)});
  }
  for (size_t i = 0; i < study.rows.size(); ++i) {
    if (!study.rows[i].timeline.is_object()) continue;
    page["rows"][i]["timeline"] = reports::MemoryStack(study.rows[i].timeline, kSamples);
  }
  return reports::StudyPage(page);
}

}  // namespace

std::string LatexText(const std::string& text) { return Replaced(text, kEscapes); }

std::string StudyFile(std::string_view format, const ordered_json& json, const StudyFacts& study) {
  if (format == "json") return json.dump(1) + "\n";
  if (format == "svg") return reports::FrontPicture(json);
  if (format == "tex") return LatexTable(json.at("title"), json.at("rows"), json.at("columns"));
  if (format == "html") return Html(json, study);
  return Csv(json.at("rows"), study.columns.empty() ? ordered_json() : json.at("columns"));
}

std::string StudyText(const ordered_json& study) {
  std::string text = TextTable(study.at("rows"), study.at("columns"));
  for (const ordered_json& law : study.at("laws")) {
    if (!Applies(law)) continue;
    text += fmt::format("{}: {}\n", law.at("law").get<std::string>(), LawText(law));
  }
  if (study.contains("warning")) text += study.at("warning").get<std::string>() + "\n";
  for (const ordered_json& fact : study.at("facts")) {
    text += fmt::format("{}: {}\n", fact.at(0).get<std::string>(), fact.at(1).get<std::string>());
  }
  return text;
}

}  // namespace plimsoll::studies
