#include "studies/study_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/amounts.h"
#include "base/spelling.h"
#include "studies/figures.h"

namespace plimsoll::studies {
namespace {

using nlohmann::ordered_json;

// The most rows that a sentence names.
constexpr size_t kShown = 4;

// The distinct values of a member among the rows, in the order of the rows.
std::string ValuesOf(const ordered_json& rows, const char* key) {
  std::vector<std::string> values;
  for (const ordered_json& row : rows) {
    if (!row.contains(key) || !row.at(key).is_string()) continue;
    const auto value = row.at(key).get<std::string>();
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
  }
  return fmt::format("{}", fmt::join(values, ", "));
}

std::string ClocksOf(const ordered_json& rows) {
  double low = 0, high = 0;
  for (const ordered_json& row : rows) {
    if (!row.contains("clock_mhz") || !row.at("clock_mhz").is_number()) continue;
    const auto mhz = row.at("clock_mhz").get<double>();
    low = low == 0 ? mhz : std::min(low, mhz);
    high = std::max(high, mhz);
  }
  if (high == 0) return "";
  return low == high ? fmt::format("{:.0f} MHz", low)
                     : fmt::format("{:.0f} to {:.0f} MHz", low, high);
}

// A sentence that names the times that cannot be trusted; empty if all times can be trusted.
std::string UnsteadyText(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) {
    if (row.measured() && SpreadOf(row).variation >= kSteady) {
      names.push_back(row.name);
    }
  }
  if (names.empty()) return "";
  return fmt::format(
      "Times are not to be trusted: steps of one and the same program vary by more than {:.0f} % "
      "(the range between their quartiles over the median) in {} of {} ({}). The machine was "
      "busy, or its clock changed.",
      kSteady * 100, names.size(), Counted(rows.size(), "row"), ListOf(names, kShown));
}

// A sentence that names the rows whose speed is in steps per second; empty without such a row.
std::string SpeedText(const ordered_json& rows) {
  std::vector<std::string> names;
  for (const ordered_json& row : rows) {
    if (row.value("speedup_by", ordered_json(nullptr)) == "steps") {
      names.push_back(row.at("name").get<std::string>());
    }
  }
  if (names.empty()) return "";
  return fmt::format(
      "of {}: steps a second against the baseline's, since one of the two does not tell how many "
      "tokens its step has",
      ListOf(names, kShown));
}

// A sentence on the number of runs that share another run's losses, and on the steps that were
// checked.
std::string SharedText(const std::vector<Row>& rows) {
  int runs = 0;
  int64_t least = 0, all = 0;
  for (const Row& row : rows) {
    for (const Run& run : row.runs) {
      if (!run.own_steps) continue;
      least = runs++ == 0 ? *run.own_steps : std::min(least, *run.own_steps);
      all = std::max(all, static_cast<int64_t>(run.losses.size()));
    }
  }
  if (runs == 0) return "";
  return fmt::format(
      "{} that must have the losses of another to the bit {} trained for {} of {}, in which these "
      "are the same; the rest of the curve and the held-out loss are the other's",
      Counted(runs, "run"), runs == 1 ? "was" : "were", least, Counted(all, "step"));
}

ordered_json FactsOf(const ordered_json& rows, const std::vector<Row>& results) {
  std::set<std::string> programs;
  for (const ordered_json& row : rows) {
    if (!row.contains("version")) continue;
    programs.insert(row.contains("commit")
                        ? fmt::format("plimsoll {} ({})", row.at("version").get<std::string>(),
                                      row.at("commit").get<std::string>())
                        : row.at("version").get<std::string>());
  }
  ordered_json facts = ordered_json::array();
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) facts.push_back({name, text});
  };
  add("program", fmt::format("{}", fmt::join(programs, ", ")));
  add("device", ValuesOf(rows, "device"));
  add("driver", ValuesOf(rows, "driver"));
  add("clocks at the end of the runs", ClocksOf(rows));
  add("speed", SpeedText(rows));
  add("shared losses", SharedText(results));
  return facts;
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

}  // namespace

ordered_json StudyJson(const StudyFacts& study) {
  const std::vector<Comparison> comparisons = Compare(study.rows, study.facts, study.baseline);
  ordered_json rows = ordered_json::array();
  size_t most_steps = 0;
  for (size_t i = 0; i < study.rows.size(); ++i) {
    rows.push_back(RowJson(i, study.rows, comparisons,
                           study.groups.empty() ? std::string() : study.groups[i]));
    size_t steps = 0;
    for (const Run& run : study.rows[i].runs) steps += run.step_ms.size();
    most_steps = std::max(most_steps, steps);
  }
  ordered_json json = {{"title", study.title}};
  json["subtitle"] = fmt::format("up to {} a row, after {} of warm-up",
                                 Counted(most_steps, "timed step"), study.warmup);
  if (const std::string text = UnsteadyText(study.rows); !text.empty()) json["warning"] = text;
  json["facts"] = FactsOf(rows, study.rows);
  json["columns"] = ColumnsOf(rows, study.columns);
  json["rows"] = rows;
  json["laws"] = LawsJson(CheckLaws(study.rows, study.facts, comparisons));
  return json;
}

bool LawsHold(const ordered_json& study) {
  return std::ranges::all_of(study.at("laws"), [](const ordered_json& law) {
    return law.at("holds") == true || law.at("must_hold") == false;
  });
}

}  // namespace plimsoll::studies
