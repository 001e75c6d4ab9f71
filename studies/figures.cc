#include "studies/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/statistics.h"
#include "trainer/config/yaml_tree.h"

namespace plimsoll::studies {
namespace {

using nlohmann::ordered_json;

// A row with the inputs of its figures.
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

ordered_json LowOf(const std::optional<Interval>& interval) {
  return interval ? ordered_json(interval->low) : ordered_json(nullptr);
}

ordered_json HighOf(const std::optional<Interval>& interval) {
  return interval ? ordered_json(interval->high) : ordered_json(nullptr);
}

// Bytes at the peak of these roles.
ordered_json OfRoles(const Row& row, const std::vector<const char*>& roles) {
  const ordered_json bytes = row.Member("bytes_by_role");
  if (!bytes.is_object()) return nullptr;
  int64_t sum = 0;
  for (const char* role : roles) {
    if (bytes.contains(role) && bytes.at(role).is_number_integer()) {
      sum += bytes.at(role).get<int64_t>();
    }
  }
  return sum;
}

// A share of the device's peak; null if the peak is not known.
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

// The mean of a figure over all runs, each of which measures it.
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
  return fmt::format("= {} in {} of {} steps", other, comparison.same_steps, comparison.steps);
}

// A figure that counts is an integer in JSON and CSV.
ordered_json AsCounted(const ordered_json& value, const std::string& unit) {
  const bool counts = unit == "bytes" || unit == "integer";
  if (!counts || !value.is_number_float()) return value;
  return static_cast<int64_t>(std::llround(value.get<double>()));
}

struct Figure {
  const char* key;
  const char* label;  // of its column; nullptr: it has none
  const char* unit;   // reports/study_page.h
  // How to get the value from a row; nullptr: it is the member `key` of the summary. Figures that
  // depend on the seed have a run's value, or a result of the comparison, instead.
  ordered_json (*of)(const View&) = nullptr;
  SeedFigure of_run = nullptr;
  std::optional<Mean> Comparison::*compared = nullptr;

  bool by_seed() const { return of_run != nullptr || compared != nullptr; }
};

// In the order of the table.
const Figure kFigures[] = {
    {"ranks", "ranks", "integer"},
    {"predicted_peak_bytes", "predicted", "bytes", PredictedPeak},
    {"peak_bytes", "peak", "bytes", [](const View& v) { return OrNull(v.row.peak_bytes()); }},
    {"step_ms", "step", "ms", [](const View& v) { return ordered_json(v.spread.median); }},
    {"step_ms_low", "from", "ms", [](const View& v) { return ordered_json(v.spread.low); }},
    {"step_ms_high", "to", "ms", [](const View& v) { return ordered_json(v.spread.high); }},
    {"step_ms_variation", "varies", "percent",
     [](const View& v) { return ordered_json(v.spread.variation); }},
    {"predicted_step_ms", nullptr, "ms"},
    {"speedup", "speed", "number", [](const View& v) { return OrNull(v.comparison.speedup); }},
    {"speedup_low", nullptr, "number", [](const View& v) { return LowOf(v.comparison.speedups); }},
    {"speedup_high", nullptr, "number",
     [](const View& v) { return HighOf(v.comparison.speedups); }},
    {"speedup_by", nullptr, "text",
     [](const View& v) {
       if (!v.comparison.speedup) return ordered_json(nullptr);
       return ordered_json(v.comparison.speedup_by_tokens ? "tokens" : "steps");
     }},
    {"tokens_per_s", "tokens/s", "count",
     [](const View& v) { return OrNull(TokensPerSecond(v.row)); }},
    {"mfu", "MFU", "percent", ModelUtilisation},
    {"hfu", "HFU", "percent", HardwareUtilisation},
    {"recompute_share", "recomputed", "percent"},
    {"collective_ms", "collectives", "ms",
     [](const View& v) { return OrNull(v.row.collective_ms); }},
    {"exposed_ms", "exposed", "ms", [](const View& v) { return OrNull(v.row.exposed_ms); }},
    {"joules_per_step", "energy of a step", "joules",
     [](const View& v) { return OverRuns(v, "joules_per_step"); }},
    {"joules_per_token", "energy of a token", "joules",
     [](const View& v) { return OverRuns(v, "joules_per_token"); }},
    {.key = "loss", .label = "loss", .unit = "number", .of_run = &Run::loss},
    {.key = "loss_difference",
     .label = "difference",
     .unit = "number",
     .compared = &Comparison::loss_difference},
    {.key = "eval_loss", .label = "held-out", .unit = "number", .of_run = &Run::eval_loss},
    {.key = "eval_loss_difference",
     .label = "held-out difference",
     .unit = "number",
     .compared = &Comparison::eval_loss_difference},
    {.key = "best_eval_loss",
     .label = "best held-out",
     .unit = "number",
     .of_run = &Run::best_eval_loss},
    {"arena_bytes", "arena", "bytes"},
    {"used_bytes", "used", "bytes", [](const View& v) { return OrNull(v.row.used_bytes); }},
    {"caching_replay_bytes", "if cached", "bytes"},
    {"activation_bytes", "activations", "bytes",
     [](const View& v) { return OfRoles(v.row, {"activation"}); }},
    {"parameter_bytes", "parameters", "bytes",
     [](const View& v) {
       return OfRoles(v.row, {"parameter", "master"});
     }},
    {"gradient_bytes", "gradients", "bytes",
     [](const View& v) { return OfRoles(v.row, {"gradient"}); }},
    {"optimizer_bytes", "optimizer", "bytes",
     [](const View& v) { return OfRoles(v.row, {"optimizer_state"}); }},
    {"workspace_bytes", "workspace", "bytes",
     [](const View& v) { return OfRoles(v.row, {"workspace"}); }},
    {"offloaded_bytes", "offloaded", "bytes",
     [](const View& v) { return OrNull(v.row.Figure("offloaded_bytes_per_step")); }},
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

// What the table may show, in its order.
std::vector<Figure> AllColumns() {
  std::vector<Figure> columns = {{"name", "row", "text"}, {"status", "status", "text"}};
  columns.insert(columns.end(), std::begin(kFigures), std::end(kFigures));
  return columns;
}

bool HasSeeds(const Row& row) {
  return std::ranges::any_of(row.runs,
                             [&](const Run& run) { return run.seed != row.runs[0].seed; });
}

void AddBySeed(const Figure& figure, const View& view, bool seeds, ordered_json& json) {
  const std::string key = figure.key;
  const std::optional<Mean> mean = figure.of_run != nullptr ? OverSeeds(view.row, figure.of_run)
                                                            : view.comparison.*figure.compared;
  json[key] = mean ? ordered_json(mean->mean) : ordered_json(nullptr);
  if (!seeds || !mean) return;
  json[key + kDeviation] = OrNull(mean->deviation);
  json[key + kRuns] = mean->count;
  if (figure.compared == nullptr || !mean->deviation) return;
  const std::optional<Interval> interval = ConfidenceOf(*mean);
  json[key + kLow] = LowOf(interval);
  json[key + kHigh] = HighOf(interval);
}

// Marks a difference that may be due to seeds: 0 lies where it may lie.
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

// A curve of means over seeds; of several also the least and the most of them.
class Curve {
 public:
  void Add(int64_t step, const std::vector<double>& losses) {
    step_.push_back(step);
    loss_.push_back(MeanOf(losses).mean);
    const auto [low, high] = std::ranges::minmax(losses);
    low_.push_back(low);
    high_.push_back(high);
    seeds_ = std::max(seeds_, losses.size());
  }

  ordered_json Json() const {
    ordered_json curve = {{"step", step_}, {"loss", loss_}};
    if (seeds_ < 2) return curve;
    curve["low"] = low_;
    curve["high"] = high_;
    return curve;
  }

 private:
  ordered_json step_ = ordered_json::array(), loss_ = step_, low_ = step_, high_ = step_;
  size_t seeds_ = 0;
};

// By step, over the runs of all seeds, up to the last step that all of them made.
ordered_json LossCurve(const Row& row) {
  std::set<std::string> seeds;
  std::vector<const Run*> runs;
  for (const Run& run : row.runs) {
    if (!run.losses.empty() && seeds.insert(run.seed).second) runs.push_back(&run);
  }
  if (runs.empty()) return nullptr;
  const size_t steps = (*std::ranges::min_element(runs, {}, [](const Run* run) {
                         return run->losses.size();
                       }))->losses.size();
  Curve curve;
  for (size_t step = 0; step < steps; ++step) {
    std::vector<double> losses;
    for (const Run* run : runs) losses.push_back(run->losses[step]);
    curve.Add(static_cast<int64_t>(step), losses);
  }
  return curve.Json();
}

ordered_json EvaluationCurve(const Row& row) {
  std::map<int64_t, std::vector<double>> losses;  // by step
  std::set<std::string> seeds;
  for (const Run& run : row.runs) {
    if (run.evaluations.empty() || !seeds.insert(run.seed).second) continue;
    for (const trainer::Evaluation& evaluation : run.evaluations) {
      losses[evaluation.step].push_back(evaluation.loss);
    }
  }
  if (losses.size() < 2) return nullptr;
  Curve curve;
  for (const auto& [step, of_step] : losses) curve.Add(step, of_step);
  return curve.Json();
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
    if (figure.by_seed()) {
      AddBySeed(figure, view, seeds, json);
    } else {
      json[figure.key] = AsCounted(
          figure.of != nullptr ? figure.of(view) : OrNull(row.Figure(figure.key)), figure.unit);
    }
  }
  json["speedup_measured"] = !view.comparison.speedup
                                 ? ordered_json(nullptr)
                                 : ordered_json(view.comparison.time != Difference::kNone);
  if (const ordered_json marks = MarksOf(view); !marks.empty()) json["marks"] = marks;
  for (const char* key :
       {"version", "commit", "device", "driver", "clock_mhz", "chosen", "bytes_by_role"}) {
    if (const ordered_json member = row.Member(key); !member.is_null()) json[key] = member;
  }
  if (const ordered_json curve = LossCurve(row); !curve.is_null()) json["curve"] = curve;
  if (const ordered_json curve = EvaluationCurve(row); !curve.is_null()) json["eval_curve"] = curve;
  return json;
}

std::vector<std::string> ParseColumns(const std::string& list) {
  const std::vector<Figure> columns = AllColumns();
  std::vector<std::string> keys;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    const size_t first = name.find_first_not_of(' '), last = name.find_last_not_of(' ');
    name = first == name.npos ? "" : name.substr(first, last + 1 - first);
    const auto found = std::ranges::find_if(columns, [&](const Figure& column) {
      return name == column.key || (column.label != nullptr && name == column.label);
    });
    if (found == columns.end()) {
      std::vector<std::string> known;
      for (const Figure& column : columns) known.emplace_back(column.key);
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
  // Leaves out columns that are empty, or would only repeat another column.
  const auto worth_showing = [&](const Figure& figure) {
    const std::string key = figure.key;
    if (figure.label == nullptr) return false;
    if (key == "name" || key == "status") return true;
    const auto other = [&](const char* than) {
      return any(key, [&](const ordered_json& row, const ordered_json& value) {
        return value != row.value(than, ordered_json(nullptr));
      });
    };
    if (key == "arena_bytes" && !other("peak_bytes")) return false;
    if (key == "best_eval_loss" && !other("eval_loss")) return false;
    if (key == "ranks" && !any(key, [](const auto&, const auto& ranks) { return ranks != 1; })) {
      return false;
    }
    return any(key, filled);
  };
  const std::vector<Figure> all = AllColumns();
  std::vector<Figure> shown;
  for (const std::string& key : chosen) shown.push_back(*std::ranges::find(all, key, &Figure::key));
  if (chosen.empty()) std::ranges::copy_if(all, std::back_inserter(shown), worth_showing);
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
