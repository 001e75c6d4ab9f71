#include "reports/run_page.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/output_file.h"
#include "reports/page.h"

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;

constexpr int kRefreshSeconds = 10;

// A chart over the steps.
struct Curve {
  const char* key;  // of the rows
  const char* title;
  const char* unit;
};

constexpr Curve kCurves[] = {
    {"lr", "Learning rate", "number"},
    {"grad_norm", "Gradient norm", "number"},
    {"tokens_per_s", "Tokens per second", "count"},
    {"step_ms", "Time of a step", "ms"},
    {"mfu", "Model FLOPs utilisation", "percent"},
};
// The newest of them; a page is no place for thousands.
constexpr size_t kMostDivergences = 100;

constexpr Curve kScalingCurves[] = {
    {"loss_scale", "Loss scale", "integer"},
    {"skipped", "Skipped steps so far", "integer"},
};

ordered_json Series(const History& history, const std::string& key, const std::string& name) {
  return {{"name", name}, {"x", history.Steps()}, {"y", history.Values(key)}};
}

ordered_json OrNull(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
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

ordered_json LossView(const History& steps, const History& evaluations) {
  ordered_json view = LinesView("Loss", "number");
  view["wide"] = true;
  view["smoothing"] = true;
  view["log_choice"] = true;
  view["series"].push_back(Series(steps, "loss", "training"));
  if (!evaluations.empty()) {
    view["series"].push_back(Series(evaluations, "eval_loss", "held out"));
    view["series"].back()["points"] = true;
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

std::vector<History::Column> StepColumns() {
  std::vector<History::Column> columns = {{"loss"}};
  for (const Curve& curve : kCurves) columns.push_back({curve.key});
  for (const Curve& curve : kScalingCurves) columns.push_back({curve.key, History::Of::kLast});
  return columns;
}

}  // namespace

RunPage::RunPage(std::string path, RunFacts facts)
    : path_(std::move(path)),
      facts_(std::move(facts)),
      steps_(StepColumns()),
      evaluations_({{"eval_loss"}}),
      energy_({{"joules_per_token"}}),
      best_eval_(std::numeric_limits<double>::quiet_NaN()),
      due_(Clock::now()) {}

std::optional<std::string> RunPage::Add(const ordered_json& row) {
  if (const auto text = row.find("diverged"); text != row.end()) {
    divergences_.push_back({"step " + row.at("step").dump(), *text});
    if (divergences_.size() > kMostDivergences) divergences_.erase(0);
  }
  if (const auto loss = row.find("eval_loss"); loss != row.end()) {
    evaluations_.Add(row);
    best_eval_ = std::fmin(best_eval_, loss->get<double>());
  } else if (row.contains("loss")) {
    steps_.Add(row);
    if (row.contains("joules_per_token")) energy_.Add(row);
  }
  return Clock::now() < due_ ? std::nullopt : Write(kRunning);
}

std::optional<std::string> RunPage::Write(const std::string& state) {
  const auto start = Clock::now();
  std::optional<std::string> problem;
  try {
    OutputFile file(path_);
    Page page{facts_.title, facts_.subtitle, Views(state)};
    if (state == kRunning) page.reload_seconds = kRefreshSeconds;
    file.Write(Render(page));
    file.Commit(OutputFile::Sync::kNo);
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
      Tile("best held-out loss", OrNull(best_eval_), "number"),
      Tile("tokens per second", OrNull(steps_.Last("tokens_per_s")), "count"),
      Tile("arena", facts_.stack.at("arena_bytes"), "bytes")};
  if (steps_.Has("mfu")) tiles.push_back(Tile("MFU", OrNull(steps_.Last("mfu")), "percent"));
  views.push_back({{"type", "tiles"}, {"tiles", std::move(tiles)}});

  if (!steps_.empty() || !evaluations_.empty()) views.push_back(LossView(steps_, evaluations_));
  ordered_json small = ordered_json::array();
  auto add = [&](const Curve& curve) {
    small.push_back(LinesView(curve.title, curve.unit));
    small.back()["series"].push_back(Series(steps_, curve.key, curve.title));
  };
  for (const Curve& curve : kCurves) {
    if (steps_.Has(curve.key)) add(curve);
  }
  const bool scaled = steps_.Last("loss_scale") != 1 || steps_.Last("skipped") > 0;
  if (scaled && !steps_.empty()) {
    for (const Curve& curve : kScalingCurves) add(curve);
  }
  if (!energy_.empty()) {
    small.push_back(LinesView("Energy of a token", "joules"));
    small.back()["series"].push_back(Series(energy_, "joules_per_token", "over some seconds"));
    small.back()["series"].back()["points"] = true;
  }
  for (size_t i = 0; i < small.size(); ++i) {
    const bool alone = small.size() % 2 == 1 && i + 1 == small.size();
    small[i]["width"] = small.size() % 3 == 0 ? "third" : alone ? "full" : "half";
    views.push_back(std::move(small[i]));
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
  views.push_back({{"type", "facts"}, {"title", "The run"}, {"rows", facts_.facts}});
  views.push_back({{"type", "text"},
                   {"title", "Configuration"},
                   {"summary", "config.yaml, resolved"},
                   {"text", facts_.config}});
  return views;
}

}  // namespace plimsoll::reports
