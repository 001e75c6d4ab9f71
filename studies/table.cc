#include "studies/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/bytes.h"
#include "trainer/progress.h"

namespace plimsoll::studies {
namespace {

using nlohmann::ordered_json;

struct Column {
  const char* key;
  const char* label;
  const char* unit;
};

// In the order of the table.
constexpr Column kColumns[] = {
    {"name", "row", "text"},
    {"status", "status", "text"},
    {"ranks", "ranks", "integer"},
    {"predicted_peak_bytes", "predicted", "bytes"},
    {"peak_bytes", "peak", "bytes"},
    {"step_ms", "step", "ms"},
    {"step_ms_low", "from", "ms"},
    {"step_ms_high", "to", "ms"},
    {"speedup", "speed", "number"},
    {"tokens_per_s", "tokens/s", "count"},
    {"mfu", "MFU", "percent"},
    {"hfu", "HFU", "percent"},
    {"recompute_share", "recomputed", "percent"},
    {"collective_ms", "collectives", "ms"},
    {"exposed_ms", "exposed", "ms"},
    {"loss", "loss", "number"},
    {"loss_difference", "difference", "number"},
    {"arena_bytes", "arena", "bytes"},
    {"used_bytes", "used", "bytes"},
    {"caching_replay_bytes", "if cached", "bytes"},
    {"activation_bytes", "activations", "bytes"},
    {"parameter_bytes", "parameters", "bytes"},
    {"gradient_bytes", "gradients", "bytes"},
    {"optimizer_bytes", "optimizer", "bytes"},
    {"workspace_bytes", "workspace", "bytes"},
    {"offloaded_bytes", "offloaded", "bytes"},
    {"bits", "bits", "text"},
};

template <typename T>
ordered_json OrNull(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

// Bytes at the peak of these roles.
ordered_json OfRoles(const Row& row, const std::vector<const char*>& roles) {
  if (!row.summary.is_object() || !row.summary.contains("bytes_by_role")) return nullptr;
  const ordered_json& bytes = row.summary.at("bytes_by_role");
  int64_t sum = 0;
  for (const char* role : roles) {
    if (bytes.is_object() && bytes.contains(role) && bytes.at(role).is_number_integer()) {
      sum += bytes.at(role).get<int64_t>();
    }
  }
  return sum;
}

// A share of the device's peak; null where that is not known.
ordered_json Utilisation(const Row& row, double flops, double step_ms) {
  const std::optional<double> peak = row.Figure("peak_flops");
  if (!peak || *peak <= 0) return nullptr;
  return flops / (*peak * step_ms * 1e-3);
}

ordered_json PredictedPeak(const Row& row) {
  for (const char* key : {"predicted_process_bytes", "predicted_reserved_bytes", "arena_bytes"}) {
    if (const std::optional<double> bytes = row.Figure(key)) return *bytes;
  }
  return nullptr;
}

std::string BitsText(const Comparison& comparison, const std::vector<Row>& rows) {
  if (comparison.same_as < 0) return "";
  return fmt::format("{} {}", comparison.same_bits ? "=" : "DIFFER from",
                     rows[static_cast<size_t>(comparison.same_as)].name);
}

void AddSpeed(const Row& row, const Comparison& comparison, ordered_json& json) {
  const Spread spread = SpreadOf(row);
  json["step_ms"] = spread.median;
  json["step_ms_low"] = spread.low;
  json["step_ms_high"] = spread.high;
  json["speedup"] = OrNull(comparison.speedup);
  json["speedup_measured"] = !comparison.speedup
                                 ? ordered_json(nullptr)
                                 : ordered_json(comparison.time != Difference::kNone);
  const std::optional<double> tokens = row.Figure("tokens_per_step");
  json["tokens_per_s"] =
      tokens ? ordered_json(*tokens / spread.median * 1e3) : OrNull(row.Figure("tokens_per_s"));
  json["mfu"] = OrNull(row.Figure("mfu"));
  json["hfu"] = nullptr;
  if (const std::optional<double> model = row.Figure("model_flops_per_step")) {
    const double again = row.Figure("recompute_flops_per_step").value_or(0);
    json["mfu"] = Utilisation(row, *model, spread.median);
    json["hfu"] = Utilisation(row, *model + again, spread.median);
  }
}

std::string Cell(const ordered_json& row, const std::string& key, const std::string& unit) {
  const ordered_json value = row.contains(key) ? row.at(key) : ordered_json(nullptr);
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  const auto number = value.get<double>();
  if (unit == "bytes") return FormatBytes(std::llround(number));
  if (unit == "ms") return fmt::format("{:.4g}", number);
  if (unit == "percent") return fmt::format("{:.1f} %", number * 100);
  if (unit == "integer") return fmt::format("{:.0f}", number);
  if (unit == "count") return trainer::FormatCount(number);
  if (key == "speedup") {
    const bool measured = row.contains("speedup_measured") && row.at("speedup_measured") == true;
    return fmt::format("{}{:.3f}", measured ? "" : "~", number);
  }
  if (key == "loss_difference") {
    const bool seeds = row.contains("loss_difference_within_seeds") &&
                       row.at("loss_difference_within_seeds") == true;
    return number == 0 ? "0" : fmt::format("{}{:+.1e}", seeds ? "~" : "", number);
  }
  return fmt::format("{:.6g}", number);
}

// Characters on a terminal; all of ours are one wide.
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

}  // namespace

ordered_json RowJson(size_t index, const std::vector<Row>& rows,
                     const std::vector<Comparison>& comparisons, const std::string& group) {
  const Row& row = rows[index];
  const Comparison& comparison = comparisons[index];
  ordered_json json = {{"name", row.name}, {"status", Name(row.status)}};
  if (!group.empty()) json["group"] = group;
  if (!row.note.empty()) json["note"] = row.note;
  if (comparison.baseline == static_cast<int>(index)) json["base"] = true;
  if (row.step_ms.empty()) return json;
  json["runs"] = row.runs;
  json["on_front"] = comparison.on_front;
  json["peak_bytes"] = OrNull(row.peak_bytes());
  json["predicted_peak_bytes"] = PredictedPeak(row);
  json["used_bytes"] = OrNull(row.used_bytes);
  for (const char* key :
       {"ranks", "arena_bytes", "max_live_bytes", "host_arena_bytes", "process_bytes",
        "predicted_process_bytes", "reserved_bytes", "resident_bytes", "caching_replay_bytes",
        "budget_bytes", "arena_budget_bytes", "predicted_step_ms", "recompute_share"}) {
    json[key] = OrNull(row.Figure(key));
  }
  json["activation_bytes"] = OfRoles(row, {"activation"});
  json["parameter_bytes"] = OfRoles(row, {"parameter", "master"});
  json["gradient_bytes"] = OfRoles(row, {"gradient"});
  json["optimizer_bytes"] = OfRoles(row, {"optimizer_state"});
  json["workspace_bytes"] = OfRoles(row, {"workspace"});
  json["offloaded_bytes"] = OrNull(row.Figure("offloaded_bytes_per_step"));
  AddSpeed(row, comparison, json);
  json["collective_ms"] = OrNull(row.collective_ms);
  json["exposed_ms"] = OrNull(row.exposed_ms);
  json["loss"] = OrNull(row.loss());
  json["loss_difference"] = OrNull(comparison.loss_difference);
  if (comparison.loss_difference) {
    json["loss_difference_within_seeds"] = comparison.loss_within_seeds;
  }
  json["bits"] = BitsText(comparison, rows);
  ordered_json marks = ordered_json::object();
  if (comparison.speedup && comparison.time == Difference::kNone) {
    marks["speedup"] = "no difference";
  }
  if (comparison.loss_within_seeds && comparison.loss_difference != 0)
    marks["loss_difference"] = "within seeds";
  if (!marks.empty()) json["marks"] = marks;
  for (const char* key : {"version", "commit", "device", "driver", "clock_mhz", "chosen"}) {
    if (row.summary.contains(key) && !row.summary.at(key).is_null())
      json[key] = row.summary.at(key);
  }
  if (row.summary.contains("bytes_by_role")) json["bytes_by_role"] = row.summary["bytes_by_role"];
  if (!row.losses.empty()) {
    ordered_json steps = ordered_json::array();
    for (size_t step = 0; step < row.losses[0].size(); ++step) steps.push_back(step);
    json["curve"] = {{"step", steps}, {"loss", row.losses[0]}};
  }
  return json;
}

ordered_json ColumnsOf(const ordered_json& rows) {
  ordered_json columns = ordered_json::array();
  for (const Column& column : kColumns) {
    const bool filled = std::any_of(rows.begin(), rows.end(), [&](const ordered_json& row) {
      if (!row.contains(column.key)) return false;
      const ordered_json& value = row.at(column.key);
      return !value.is_null() && value != "" && !(value.is_number() && value == 0);
    });
    const bool is_peak = std::string(column.key) == "arena_bytes" &&
                         std::all_of(rows.begin(), rows.end(), [](const ordered_json& row) {
                           return !row.contains("arena_bytes") || row.at("arena_bytes").is_null() ||
                                  row.at("arena_bytes") == row.at("peak_bytes");
                         });
    const bool one_rank = std::string(column.key) == "ranks" &&
                          std::all_of(rows.begin(), rows.end(), [](const ordered_json& row) {
                            return !row.contains("ranks") || row.at("ranks") == 1;
                          });
    if (!filled || is_peak || one_rank) continue;
    columns.push_back({{"key", column.key}, {"label", column.label}, {"unit", column.unit}});
  }
  return columns;
}

std::string TextTable(const ordered_json& rows, const ordered_json& columns) {
  std::vector<std::vector<std::string>> lines(1);
  for (const ordered_json& column : columns) {
    const auto unit = column.at("unit").get<std::string>();
    lines[0].push_back(column.at("label").get<std::string>() + (unit == "ms" ? " ms" : ""));
  }
  for (const ordered_json& row : rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const ordered_json& column : columns) {
      line.push_back(Cell(row, column.at("key"), column.at("unit")));
    }
  }
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
  return text +
         "step: the median of all measured steps; from, to: their quartiles and the medians of the "
         "runs.\nspeed: against the baseline; ~: no difference beyond that spread.\n";
}

std::string Csv(const ordered_json& rows) {
  std::vector<std::string> keys;
  for (const ordered_json& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (value.is_structured() || std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      keys.push_back(key);
    }
  }
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
                    {"broken", law.broken}});
  }
  return json;
}

}  // namespace plimsoll::studies
