#include "reports/run_page.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "base/output_file.h"
#include "reports/page.h"

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;

constexpr int kRefreshSeconds = 10;

// A chart of a metric over the steps.
struct Curve {
  const char* key;  // member of the rows
  const char* title;
  const char* unit;
  bool by_objective = false;  // each named objective has its own curve
};

constexpr std::string_view kThroughput = "tokens_per_s";
constexpr Curve kCurves[] = {
    {"lr", "Learning rate", "number", true},        {"grad_norm", "Gradient norm", "number", true},
    {"tokens_per_s", "Tokens per second", "count"}, {"step_ms", "Time of a step", "ms"},
    {"data_ms", "Time for data in a step", "ms"},   {"mfu", "Model FLOPs utilisation", "percent"},
};
// Only this number of divergences is shown, the newest ones.
constexpr size_t kMostDivergences = 100;

constexpr Curve kScalingCurves[] = {
    {"loss_scale", "Loss scale", "integer", true},
    {"skipped", "Skipped steps so far", "integer", true},
};

ordered_json Series(const History& history, const std::string& key, const std::string& name) {
  return {{"name", name}, {"x", history.Steps()}, {"y", history.Values(key)}};
}

ordered_json Tile(const char* label, ordered_json value, const char* unit) {
  return {{"label", label}, {"value", std::move(value)}, {"unit", unit}};
}

ordered_json LinesView(const std::string& title, const std::string& unit) {
  return {{"type", "lines"},
          {"title", title},
          {"x", {{"label", "step"}, {"unit", "integer"}}},
          {"y", {{"label", ""}, {"unit", unit}}},
          {"series", ordered_json::array()}};
}

// The keys of a metric: the key itself, "loss"; with named objectives "critic.loss" and so on.
std::vector<std::string> KeysOf(const RunFacts& facts, const std::string& key) {
  if (facts.objectives.empty()) return {key};
  std::vector<std::string> keys;
  for (const std::string& objective : facts.objectives) keys.push_back(objective + "." + key);
  return keys;
}

std::string HeldOut(const std::string& key) { return "eval_" + key; }

void AddHeldOut(ordered_json& view, const History& evaluations, const std::string& key,
                const std::string& name) {
  if (evaluations.empty()) return;
  view["series"].push_back(Series(evaluations, HeldOut(key), name));
  view["series"].back()["points"] = true;
}

ordered_json LossView(const RunFacts& facts, const History& steps, const History& evaluations) {
  ordered_json view = LinesView("Loss", "number");
  view["wide"] = true;
  view["smoothing"] = true;
  view["log_choice"] = true;
  for (const std::string& key : KeysOf(facts, "loss")) {
    const std::string of = facts.objectives.empty() ? "" : key + ", ";
    view["series"].push_back(Series(steps, key, of + "training"));
    AddHeldOut(view, evaluations, key, of + "held out");
  }
  if (steps.rows_per_point() > 1) {
    view["note"] =
        "Each point is the mean of " + std::to_string(steps.rows_per_point()) + " steps.";
  }
  return view;
}

ordered_json MemoryLine(const RunFacts& facts) {
  if (!facts.arena_budget) return nullptr;
  return {{"label", "budget"}, {"value", *facts.arena_budget}};
}

ordered_json BarsView(const char* title, const ordered_json& bars) {
  return {{"type", "bars"}, {"title", title}, {"unit", "bytes"}, {"width", "half"}, {"bars", bars}};
}

ordered_json ImagesView(const char* title, int64_t steps_done, const std::string& note,
                        ordered_json images) {
  return {{"type", "images"},
          {"title", title},
          {"note", "After " + Counted(steps_done, "step") + note},
          {"images", std::move(images)}};
}

std::vector<History::Column> StepColumns(const RunFacts& facts) {
  std::vector<History::Column> columns;
  const auto add = [&](const char* key, bool by_objective, History::Of of) {
    columns.push_back({key, of});
    if (facts.objectives.empty() || !by_objective) return;
    for (const std::string& own : KeysOf(facts, key)) columns.push_back({own, of});
  };
  add("loss", true, History::Of::kMean);
  for (const Curve& curve : kCurves) add(curve.key, curve.by_objective, History::Of::kMean);
  for (const Curve& curve : kScalingCurves) add(curve.key, curve.by_objective, History::Of::kLast);
  for (const std::string& metric : facts.metrics) columns.push_back({metric});
  return columns;
}

std::vector<History::Column> EvaluationColumns(const RunFacts& facts) {
  std::vector<History::Column> columns;
  for (const std::string& key : KeysOf(facts, "loss")) columns.push_back({HeldOut(key)});
  for (const std::string& metric : facts.metrics) columns.push_back({HeldOut(metric)});
  return columns;
}

}  // namespace

RunPage::RunPage(std::string path, RunFacts facts)
    : path_(std::move(path)),
      facts_(std::move(facts)),
      steps_(StepColumns(facts_)),
      evaluations_(EvaluationColumns(facts_)),
      energy_({{"joules_per_token"}}),
      best_eval_(std::numeric_limits<double>::quiet_NaN()),
      due_(Clock::now()) {}

std::optional<std::string> RunPage::Add(const ordered_json& row) {
  if (const auto text = row.find("diverged"); text != row.end()) {
    divergences_.push_back({"step " + row.at("step").dump(), *text});
    if (divergences_.size() > kMostDivergences) divergences_.erase(0);
  }
  if (row.contains("eval_loss")) {
    evaluations_.Add(row);
    last_evaluation_ = row;
    const auto value = row.find(HeldOut(facts_.monitor));
    if (value != row.end() && value->is_number()) {
      best_eval_ = facts_.larger_is_better ? std::fmax(best_eval_, value->get<double>())
                                           : std::fmin(best_eval_, value->get<double>());
    }
  } else if (row.contains("loss")) {
    steps_.Add(row);
    if (row.contains("joules_per_token")) energy_.Add(row);
  }
  return Clock::now() < due_ ? std::nullopt : Write(kRunning);
}

void RunPage::ShowMistakes(int64_t steps_done, ordered_json images) {
  mistakes_ = nullptr;
  if (images.empty()) return;
  mistakes_ = ImagesView("Held out: the surest mistakes", steps_done,
                         ": the label, not what the model took the image for.", std::move(images));
  if (!facts_.class_names.empty()) mistakes_["names"] = facts_.class_names;
}

void RunPage::ShowSlices(int64_t steps_done, const std::string& colours, ordered_json images) {
  slices_ = ImagesView("Held out: slices", steps_done,
                       ": the image, with labels, with predictions. Of each sample the slice "
                       "with the most foreground. Classes from 1 on are " +
                           colours + ".",
                       std::move(images));
}

void RunPage::ShowImages(int64_t steps_done, const std::string& png) {
  images_ = ImagesView("Images that the model makes", steps_done,
                       ", of the same noise in each evaluation; samples/ has the earlier "
                       "ones.",
                       ordered_json::array({{{"caption", ""}, {"png", png}}}));
}

std::optional<std::string> RunPage::Write(const std::string& state) {
  const auto start = Clock::now();
  std::optional<std::string> problem;
  try {
    Page page{facts_.title, facts_.subtitle, Views(state)};
    if (state == kRunning) page.reload_seconds = kRefreshSeconds;
    WriteWhole(path_, Render(page), OutputFile::Sync::kNo);
  } catch (const UserError& error) {
    problem = error.what();
  }
  const auto now = Clock::now();
  due_ =
      now + std::max<Clock::duration>(std::chrono::seconds(kRefreshSeconds), 100 * (now - start));
  return problem;
}

ordered_json RunPage::Views(const std::string& state) const {
  ordered_json views = ordered_json::array();
  const ordered_json steps = steps_.Steps();
  const int64_t done = steps.empty() ? 0 : steps.back().get<int64_t>() + 1;
  ordered_json tiles = {
      Tile(state.c_str(), std::to_string(done) + " of " + std::to_string(facts_.steps), "text"),
      Tile("loss", OrNull(steps_.Last("loss")), "number"),
      Tile(("best held-out " + facts_.monitor).c_str(), OrNull(best_eval_), "number"),
      Tile((facts_.unit + "s per second").c_str(), OrNull(steps_.Last("tokens_per_s")), "count"),
      Tile("arena", facts_.stack.at("arena_bytes"), "bytes")};
  if (steps_.Has("mfu")) tiles.push_back(Tile("MFU", OrNull(steps_.Last("mfu")), "percent"));
  views.push_back({{"type", "tiles"}, {"tiles", std::move(tiles)}});

  if (!steps_.empty() || !evaluations_.empty())
    views.push_back(LossView(facts_, steps_, evaluations_));
  ordered_json small = ordered_json::array();
  auto add = [&](const Curve& curve) {
    std::string title = curve.title;
    if (curve.key == kThroughput && facts_.unit == "sample") title = "Samples per second";
    small.push_back(LinesView(title, curve.unit));
    if (facts_.objectives.empty() || !curve.by_objective) {
      small.back()["series"].push_back(Series(steps_, curve.key, title));
      return;
    }
    for (const std::string& key : KeysOf(facts_, curve.key)) {
      small.back()["series"].push_back(Series(steps_, key, key));
    }
  };
  for (const Curve& curve : kCurves) {
    if (steps_.Has(curve.key)) add(curve);
  }
  for (const std::string& metric : facts_.metrics) {
    if (!steps_.Has(metric) && !evaluations_.Has(HeldOut(metric))) continue;
    small.push_back(LinesView(metric, "number"));
    if (steps_.Has(metric)) small.back()["series"].push_back(Series(steps_, metric, "training"));
    AddHeldOut(small.back(), evaluations_, metric, "held out");
  }
  const auto any = [&](const char* key, const auto& test) {
    return std::ranges::any_of(KeysOf(facts_, key),
                               [&](const std::string& own) { return test(steps_.Last(own)); });
  };
  const bool scaled = any("loss_scale", [](double scale) { return scale != 1; }) ||
                      any("skipped", [](double skipped) { return skipped > 0; });
  if (scaled && !steps_.empty()) {
    for (const Curve& curve : kScalingCurves) add(curve);
  }
  if (!energy_.empty()) {
    small.push_back(LinesView("Energy of a " + facts_.unit, "joules"));
    small.back()["series"].push_back(Series(energy_, "joules_per_token", "over some seconds"));
    small.back()["series"].back()["points"] = true;
  }
  for (size_t i = 0; i < small.size(); ++i) {
    const bool alone = small.size() % 2 == 1 && i + 1 == small.size();
    small[i]["width"] = small.size() % 3 == 0 ? "third" : alone ? "full" : "half";
    views.push_back(std::move(small[i]));
  }

  for (const RunFacts::Matrix& matrix : facts_.matrices) {
    const auto member = last_evaluation_.find(HeldOut(matrix.metric));
    if (member == last_evaluation_.end()) continue;
    views.push_back({{"type", "matrix"},
                     {"title", "Held out: " + matrix.metric},
                     {"note", "After " + Counted(last_evaluation_.at("step").dump(), "step") +
                                  ". A cell is as dark as its share of its row."},
                     {"rows", matrix.rows},
                     {"columns", matrix.columns},
                     {"counts", member->at("sum")}});
    if (!facts_.class_names.empty()) views.back()["names"] = facts_.class_names;
  }
  for (const ordered_json& pictures : {mistakes_, slices_, images_}) {
    if (!pictures.is_null()) views.push_back(pictures);
  }
  if (!divergences_.empty()) {
    views.push_back({{"type", "facts"}, {"title", "Divergence"}, {"rows", divergences_}});
  }
  ordered_json variants = ordered_json::array();
  variants.push_back(
      {{"name", facts_.title}, {"timeline", facts_.stack}, {"line", MemoryLine(facts_)}});
  views.push_back({{"type", "timeline"},
                   {"title", "Memory over a step"},
                   {"wide", true},
                   {"variants", std::move(variants)}});
  views.push_back(BarsView("The peak by role", facts_.by_role));
  views.push_back(BarsView("The peak by block", facts_.by_block));
  ordered_json facts = facts_.facts;
  if (!unread_.empty()) facts.push_back(ordered_json::array({"data left out", unread_}));
  views.push_back({{"type", "facts"}, {"title", "The run"}, {"rows", std::move(facts)}});
  views.push_back({{"type", "text"},
                   {"title", "Configuration"},
                   {"summary", "config.yaml, resolved"},
                   {"text", facts_.config}});
  return views;
}

}  // namespace plimsoll::reports
