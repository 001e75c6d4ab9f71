#include "studies/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <variant>

#include "base/amounts.h"
#include "base/error.h"
#include "base/statistics.h"
#include "trainer/config/yaml_tree.h"

namespace plimsoll::studies {
namespace {

using nlohmann::ordered_json;

// A row with the data that its figures are computed from.
struct View {
  const Row& row;
  const Comparison& comparison;
  const std::vector<Row>& rows;
  Spread spread;
};

template <typename T>
ordered_json OrNull(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

// One end of an interval, as JSON; null without an interval.
ordered_json EndOf(const std::optional<Interval>& interval, double Interval::*end) {
  return interval ? ordered_json(*interval.*end) : ordered_json(nullptr);
}

// Bytes of tensors with these roles at the memory peak.
ordered_json OfRoles(const View& view, std::initializer_list<const char*> roles) {
  const ordered_json bytes = view.row.Member("bytes_by_role");
  if (!bytes.is_object()) return nullptr;
  int64_t sum = 0;
  for (const char* role : roles) {
    if (bytes.contains(role) && bytes.at(role).is_number_integer()) {
      sum += bytes.at(role).get<int64_t>();
    }
  }
  return sum;
}

// `flops` as a share of the device's peak; null if the peak is unknown.
ordered_json Utilisation(const View& view, double flops) {
  const std::optional<double> peak = view.row.Figure("peak_flops");
  if (!peak || *peak <= 0) return nullptr;
  return flops / (*peak * view.spread.median * 1e-3);
}

ordered_json ModelUtilisation(const View& view) {
  const std::optional<double> flops = view.row.Figure("model_flops_per_step");
  return flops ? Utilisation(view, *flops) : OrNull(view.row.Figure("mfu"));
}

ordered_json HardwareUtilisation(const View& view) {
  const std::optional<double> flops = view.row.Figure("model_flops_per_step");
  if (!flops) return OrNull(view.row.Figure("hfu"));
  return Utilisation(view, *flops + view.row.Figure("recompute_flops_per_step").value_or(0));
}

ordered_json PredictedPeak(const View& view) {
  for (const char* key : {"predicted_process_bytes", "predicted_reserved_bytes", "arena_bytes"}) {
    if (const std::optional<double> bytes = view.row.Figure(key)) return *bytes;
  }
  return nullptr;
}

// The mean of a figure over all runs; each run measures the figure.
ordered_json OverRuns(const View& view, const char* key) {
  std::vector<double> values;
  for (const Run& run : view.row.runs) {
    if (const std::optional<double> value = run.Figure(key)) values.push_back(*value);
  }
  return values.empty() ? ordered_json(nullptr) : ordered_json(MeanOf(values).mean);
}

ordered_json BitsText(const View& view) {
  const Comparison& comparison = view.comparison;
  if (comparison.same_as < 0) return "";
  const std::string& other = view.rows[static_cast<size_t>(comparison.same_as)].name;
  if (!comparison.same_bits) return "DIFFER from " + other;
  if (comparison.same_steps == comparison.steps) return "= " + other;
  return fmt::format("= {} in {} of {}", other, comparison.same_steps,
                     Counted(comparison.steps, "step"));
}

// The value as an integer in JSON and CSV, if the unit is one of counts.
ordered_json AsCounted(const ordered_json& value, const std::string& unit) {
  const bool counts = unit == "bytes" || unit == "integer";
  if (!counts || !value.is_number_float()) return value;
  return static_cast<int64_t>(std::llround(value.get<double>()));
}

// The source of a figure: a key of the summary, a function of the row, or, if the figure depends on
// the seed, a value of each run or a result of the comparison.
using OfRow = ordered_json (*)(const View&);
using Compared = std::optional<Mean> Comparison::*;
using Source = std::variant<const char*, OfRow, SeedFigure, Compared>;

struct Figure {
  const char* key;
  const char* label;  // label of the figure's column; nullptr means no column
  const char* unit;   // reports/study_page.h
  Source of;

  Figure(const char* key, const char* label, const char* unit) : Figure(key, label, unit, key) {}
  Figure(const char* key, const char* label, const char* unit, Source of)
      : key(key), label(label), unit(unit), of(of) {}
};

using V = const View&;

// The figures in the order of the table. The first two figures are members of every row.
const Figure kFigures[] = {
    {"name", "row", "text"},
    {"status", "status", "text"},
    {"ranks", "ranks", "integer"},
    {"predicted_peak_bytes", "predicted", "bytes", PredictedPeak},
    {"peak_bytes", "peak", "bytes", [](V v) { return OrNull(v.row.peak_bytes()); }},
    {"step_ms", "step", "ms", [](V v) { return ordered_json(v.spread.median); }},
    {"step_ms_low", "from", "ms", [](V v) { return ordered_json(v.spread.low); }},
    {"step_ms_high", "to", "ms", [](V v) { return ordered_json(v.spread.high); }},
    {"step_ms_variation", "varies", "percent",
     [](V v) { return ordered_json(v.spread.variation); }},
    {"predicted_step_ms", nullptr, "ms"},
    {"speedup", "speed", "number", [](V v) { return OrNull(v.comparison.speedup); }},
    {"speedup_low", nullptr, "number",
     [](V v) { return EndOf(v.comparison.speedups, &Interval::low); }},
    {"speedup_high", nullptr, "number",
     [](V v) { return EndOf(v.comparison.speedups, &Interval::high); }},
    {"speedup_by", nullptr, "text",
     [](V v) {
       if (!v.comparison.speedup) return ordered_json(nullptr);
       return ordered_json(v.comparison.speedup_by_tokens ? "tokens" : "steps");
     }},
    {"tokens_per_s", "tokens/s", "count", [](V v) { return OrNull(TokensPerSecond(v.row)); }},
    {"mfu", "MFU", "percent", ModelUtilisation},
    {"hfu", "HFU", "percent", HardwareUtilisation},
    {"recompute_share", "recomputed", "percent"},
    {"collective_ms", "collectives", "ms", [](V v) { return OrNull(v.row.collective_ms); }},
    {"exposed_ms", "exposed", "ms", [](V v) { return OrNull(v.row.exposed_ms); }},
    {"joules_per_step", "energy of a step", "joules",
     [](V v) { return OverRuns(v, "joules_per_step"); }},
    {"joules_per_token", "energy of a token", "joules",
     [](V v) { return OverRuns(v, "joules_per_token"); }},
    {"loss", "loss", "number", &Run::loss},
    {"loss_difference", "difference", "number", &Comparison::loss_difference},
    {"eval_loss", "held-out", "number", &Run::eval_loss},
    {"eval_loss_difference", "held-out difference", "number", &Comparison::eval_loss_difference},
    {"best_eval_loss", "best held-out", "number", &Run::best_eval_loss},
    {"arena_bytes", "arena", "bytes"},
    {"used_bytes", "used", "bytes", [](V v) { return OrNull(v.row.used_bytes); }},
    {"caching_replay_bytes", "if cached", "bytes"},
    {"activation_bytes", "activations", "bytes", [](V v) { return OfRoles(v, {"activation"}); }},
    {"parameter_bytes", "parameters", "bytes",
     [](V v) {
       return OfRoles(v, {"parameter", "master"});
     }},
    {"gradient_bytes", "gradients", "bytes", [](V v) { return OfRoles(v, {"gradient"}); }},
    {"optimizer_bytes", "optimizer", "bytes", [](V v) { return OfRoles(v, {"optimizer_state"}); }},
    {"workspace_bytes", "workspace", "bytes", [](V v) { return OfRoles(v, {"workspace"}); }},
    {"offloaded_bytes", "offloaded", "bytes", "offloaded_bytes_per_step"},
    {"bits", "bits", "text", BitsText},
    {"max_live_bytes", nullptr, "bytes"},
    {"host_arena_bytes", nullptr, "bytes"},
    {"process_bytes", nullptr, "bytes"},
    {"predicted_process_bytes", nullptr, "bytes"},
    {"reserved_bytes", nullptr, "bytes"},
    {"resident_bytes", nullptr, "bytes"},
    {"budget_bytes", nullptr, "bytes"},
    {"arena_budget_bytes", nullptr, "bytes"},
};

const std::string kDeviation = "_deviation", kRuns = "_runs", kLow = "_low", kHigh = "_high";

bool HasSeeds(const Row& row) {
  return std::ranges::any_of(row.runs,
                             [&](const Run& run) { return run.seed != row.runs[0].seed; });
}

void AddBySeed(const std::string& key, const std::optional<Mean>& mean, bool seeds, bool compared,
               ordered_json& json) {
  json[key] = mean ? ordered_json(mean->mean) : ordered_json(nullptr);
  if (!seeds || !mean) return;
  json[key + kDeviation] = OrNull(mean->deviation);
  json[key + kRuns] = mean->count;
  if (!compared || !mean->deviation) return;
  const std::optional<Interval> interval = ConfidenceOf(*mean);
  json[key + kLow] = EndOf(interval, &Interval::low);
  json[key + kHigh] = EndOf(interval, &Interval::high);
}

void AddFigure(const Figure& figure, const View& view, bool seeds, ordered_json& json) {
  if (const auto* of_run = std::get_if<SeedFigure>(&figure.of)) {
    AddBySeed(figure.key, OverSeeds(view.row, *of_run), seeds, false, json);
  } else if (const auto* compared = std::get_if<Compared>(&figure.of)) {
    AddBySeed(figure.key, view.comparison.*(*compared), seeds, true, json);
  } else {
    const auto* of = std::get_if<OfRow>(&figure.of);
    json[figure.key] = AsCounted(
        of != nullptr ? (*of)(view) : OrNull(view.row.Figure(std::get<const char*>(figure.of))),
        figure.unit);
  }
}

// Marks a difference that may be due to seeds: one whose confidence interval contains 0.
void MarkDifference(const char* key, const std::optional<Mean>& difference, ordered_json& marks) {
  const std::optional<Interval> interval = difference ? ConfidenceOf(*difference) : std::nullopt;
  if (!interval || interval->low == interval->high || interval->low > 0 || interval->high < 0) {
    return;
  }
  marks[key] = fmt::format("cannot tell: {:+.2g} to {:+.2g}", interval->low, interval->high);
}

ordered_json MarksOf(const View& view) {
  ordered_json marks = ordered_json::object();
  const Comparison& comparison = view.comparison;
  if (comparison.speedup && comparison.time == Difference::kNone) {
    marks["speedup"] = fmt::format("cannot tell: {:.3f} to {:.3f}", comparison.speedups->low,
                                   comparison.speedups->high);
  }
  if (view.spread.variation >= kSteady) marks["step_ms_variation"] = "not steady";
  MarkDifference("loss_difference", comparison.loss_difference, marks);
  MarkDifference("eval_loss_difference", comparison.eval_loss_difference, marks);
  return marks;
}

using Points = std::vector<trainer::Evaluation>;

Points LossesOf(const Run& run) {
  Points points;
  for (const double loss : run.losses) {
    points.push_back({static_cast<int64_t>(points.size()), loss});
  }
  return points;
}

// A curve of means over seeds; with several seeds also the minimum and maximum over seeds. `all`:
// only steps that the runs of all seeds have. null if the curve has fewer than `least` points.
ordered_json CurveOf(const Row& row, Points (*points_of)(const Run&), bool all, size_t least) {
  std::map<int64_t, std::vector<double>> losses;  // losses of all seeds, by step
  std::set<std::string> seeds;
  for (const Run& run : row.runs) {
    const Points points = points_of(run);
    if (points.empty() || !seeds.insert(run.seed).second) continue;
    for (const auto& [step, loss] : points) losses[step].push_back(loss);
  }
  if (all) std::erase_if(losses, [&](const auto& at) { return at.second.size() < seeds.size(); });
  if (losses.size() < least) return nullptr;
  ordered_json steps = ordered_json::array(), means = steps, low = steps, high = steps;
  for (const auto& [step, of_step] : losses) {
    steps.push_back(step);
    means.push_back(MeanOf(of_step).mean);
    low.push_back(std::ranges::min(of_step));
    high.push_back(std::ranges::max(of_step));
  }
  ordered_json curve = {{"step", steps}, {"loss", means}};
  if (std::ranges::any_of(losses, [](const auto& at) { return at.second.size() > 1; })) {
    curve["low"] = low;
    curve["high"] = high;
  }
  return curve;
}

}  // namespace

ordered_json RowJson(size_t index, const std::vector<Row>& rows,
                     const std::vector<Comparison>& comparisons, const std::string& group) {
  const Row& row = rows[index];
  ordered_json json = {{"name", row.name}, {"status", Name(row.status)}};
  if (!group.empty()) json["group"] = group;
  if (!row.note.empty()) json["note"] = row.note;
  if (comparisons[index].is_baseline) json["base"] = true;
  if (!row.has_results()) return json;
  const View view{row, comparisons[index], rows, SpreadOf(row)};
  const bool seeds = std::ranges::any_of(rows, HasSeeds);
  json["runs"] = row.runs.size();
  json["on_front"] = view.comparison.on_front;
  for (const Figure& figure : kFigures) {
    if (!json.contains(figure.key)) AddFigure(figure, view, seeds, json);
  }
  json["speedup_measured"] = !view.comparison.speedup
                                 ? ordered_json(nullptr)
                                 : ordered_json(view.comparison.time != Difference::kNone);
  if (const ordered_json marks = MarksOf(view); !marks.empty()) json["marks"] = marks;
  for (const char* key :
       {"version", "commit", "device", "driver", "clock_mhz", "chosen", "bytes_by_role"}) {
    if (const ordered_json member = row.Member(key); !member.is_null()) json[key] = member;
  }
  const ordered_json curve = CurveOf(row, LossesOf, /*all=*/true, 1);
  if (!curve.is_null()) json["curve"] = curve;
  const auto evaluations = [](const Run& run) { return run.evaluations; };
  const ordered_json eval_curve = CurveOf(row, evaluations, /*all=*/false, 2);
  if (!eval_curve.is_null()) json["eval_curve"] = eval_curve;
  return json;
}

std::vector<std::string> ParseColumns(const std::string& list) {
  std::vector<std::string> keys;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    const size_t first = name.find_first_not_of(' '), last = name.find_last_not_of(' ');
    name = first == name.npos ? "" : name.substr(first, last + 1 - first);
    const auto found = std::ranges::find_if(kFigures, [&](const Figure& column) {
      return name == column.key || (column.label != nullptr && name == column.label);
    });
    if (found == std::end(kFigures)) {
      std::vector<std::string> known;
      for (const Figure& column : kFigures) known.emplace_back(column.key);
      throw UserError(
          fmt::format("--columns: {} is no column; there are {}, and what the table's "
                      "head calls them",
                      config::Quote(name), fmt::join(known, ", ")));
    }
    if (std::ranges::find(keys, found->key) != keys.end()) {
      throw UserError(fmt::format("--columns: {} is named twice; keep one", config::Quote(name)));
    }
    keys.emplace_back(found->key);
  }
  return keys;
}

ordered_json ColumnsOf(const ordered_json& rows, const std::vector<std::string>& chosen) {
  const auto any = [&](const std::string& key, const auto& says) {
    return std::ranges::any_of(rows, [&](const ordered_json& row) {
      return row.contains(key) && !row.at(key).is_null() && says(row, row.at(key));
    });
  };
  const auto filled = [](const ordered_json& /*row*/, const ordered_json& value) {
    return value != "" && !(value.is_number() && value == 0);
  };
  // Leaves out columns that are empty or that only repeat another column.
  const auto worth_showing = [&](const Figure& figure) {
    const std::string key = figure.key;
    if (key == "name" || key == "status") return true;
    const char* const other = key == "arena_bytes"      ? "peak_bytes"
                              : key == "best_eval_loss" ? "eval_loss"
                                                        : nullptr;
    const auto says_more = [&](const ordered_json& row, const ordered_json& value) {
      if (key == "ranks") return value != 1;
      return other == nullptr || value != row.value(other, ordered_json(nullptr));
    };
    return figure.label != nullptr && any(key, filled) && any(key, says_more);
  };
  std::vector<Figure> shown;
  for (const std::string& key : chosen) {
    shown.push_back(*std::ranges::find(kFigures, key, &Figure::key));
  }
  if (chosen.empty()) std::ranges::copy_if(kFigures, std::back_inserter(shown), worth_showing);
  ordered_json columns = ordered_json::array();
  for (const Figure& figure : shown) {
    const std::string key = figure.key;
    ordered_json column = {{"key", key},
                           {"label", figure.label != nullptr ? figure.label : figure.key},
                           {"unit", figure.unit}};
    if (any(key + kRuns, filled)) {
      column["deviation"] = key + kDeviation;
      column["runs"] = key + kRuns;
    }
    columns.push_back(column);
  }
  return columns;
}

}  // namespace plimsoll::studies
