#include "studies/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/amounts.h"
#include "base/bytes.h"

namespace plimsoll::studies {
namespace {

using nlohmann::ordered_json;

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

// The figure of a column, with the deviation over seeds and their number if it has any.
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

// Where a comparison that nobody can tell lies: " (0.984 to 1.021)".
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

// The number of characters on a terminal, where all of ours have width one.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string CsvCell(const ordered_json& value) {
  if (value.is_null()) return "";
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// All scalar members, in the order in which the rows bring them.
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

// The members that the columns show.
std::vector<std::string> KeysOf(const ordered_json& columns) {
  std::vector<std::string> keys;
  for (const ordered_json& column : columns) {
    for (const char* member : {"key", "deviation", "runs"}) {
      if (column.contains(member)) keys.push_back(column.at(member).get<std::string>());
    }
  }
  return keys;
}

}  // namespace

std::vector<std::vector<std::string>> TableCells(const ordered_json& rows,
                                                 const ordered_json& columns) {
  std::vector<std::vector<std::string>> lines(1);
  for (const ordered_json& column : columns) {
    const auto unit = column.at("unit").get<std::string>();
    lines[0].push_back(column.at("label").get<std::string>() + (unit == "ms" ? " ms" : ""));
  }
  for (const ordered_json& row : rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const ordered_json& column : columns) {
      line.push_back(Cell(row, column));
    }
  }
  return lines;
}

std::string TextTable(const ordered_json& rows, const ordered_json& columns) {
  const std::vector<std::vector<std::string>> lines = TableCells(rows, columns);
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
  for (const ordered_json& row : rows) {
    if (row.contains("note")) {
      text += fmt::format("{}: {}\n", row.at("name").get<std::string>(),
                          row.at("note").get<std::string>());
    }
  }
  text +=
      "step: the median of all measured steps; from, to: their quartiles and those of the runs' "
      "medians.\nvaries: the range between these quartiles as a share of the median.\n"
      "speed: tokens (or samples) a second against the baseline's; ~: cannot tell, since the "
      "spreads overlap, which leave possible what stands behind.\n";
  const bool seeds = std::any_of(columns.begin(), columns.end(), [](const ordered_json& column) {
    return column.contains("runs");
  });
  if (seeds) {
    text +=
        "losses: mean ± sample standard deviation (number of seeds); differences from the baseline "
        "are of pairs of runs with the same seed; ~: cannot tell, since the 95 % interval of their "
        "mean, which stands behind, has both signs.\n";
  }
  return text;
}

std::string Csv(const ordered_json& rows, const ordered_json& columns) {
  const std::vector<std::string> keys = columns.is_null() ? ScalarKeys(rows) : KeysOf(columns);
  std::string text;
  for (size_t i = 0; i < keys.size(); ++i) text += (i > 0 ? "," : "") + CsvCell(keys[i]);
  text += "\n";
  for (const ordered_json& row : rows) {
    for (size_t i = 0; i < keys.size(); ++i) {
      const bool has = row.contains(keys[i]) && !row.at(keys[i]).is_structured();
      text += (i > 0 ? "," : "") + (has ? CsvCell(row.at(keys[i])) : "");
    }
    text += "\n";
  }
  return text;
}

ordered_json LawsJson(const std::vector<Law>& laws) {
  ordered_json json = ordered_json::array();
  for (const Law& law : laws) {
    json.push_back({{"law", law.name},
                    {"checked", law.checked},
                    {"holds", law.broken.empty()},
                    {"must_hold", law.must_hold},
                    {"broken", law.broken},
                    {"untold", law.untold}});
  }
  return json;
}

}  // namespace plimsoll::studies
