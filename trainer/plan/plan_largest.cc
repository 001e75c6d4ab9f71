// `plimsoll plan --max KEY`.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "models/family.h"
#include "trainer/plan/plan_table.h"
#include "trainer/resolve/activity.h"
#include "trainer/resolve/budget_error.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/gpu_profile.h"
#include "trainer/resolve/run_budget.h"

namespace plimsoll::trainer {
namespace {

using config::RunConfig;

// A key that can grow: a function that sets it, and its largest value.
struct Growing {
  std::function<void(RunConfig&, int64_t)> set;
  int64_t limit;
  std::string limit_reason;
  int64_t unit = 1;  // the value grows in steps of this size
};

Growing GrowingKey(const RunConfig& config, const std::string& key) {
  constexpr int64_t kMost = 1 << 20;
  if (key == "train.micro_batch") {
    const models::SampleCoupling coupling = ModelFrom(config)->sample_coupling();
    if (coupling.whole_micro_batch()) {
      throw config.Error("train.micro_batch",
                         "--max would change the mathematics, too: all samples of a micro-batch "
                         "act on one another in this model (docs/batch_norm.md); give a number" +
                             GroupsAdvice(config));
    }
    const int64_t group = coupling.smallest_micro_batch();
    return {[](RunConfig& run, int64_t value) { run.train.micro_batch = value; }, kMost / group,
            "more are not tried", group};
  }
  if (key != "model.sequence" && key != "model.layers") {
    throw UserError(
        fmt::format("plimsoll plan: --max {}: no key that can grow; ask for "
                    "train.micro_batch, model.sequence or model.layers",
                    key));
  }
  const std::string name = key.substr(key.find('.') + 1);
  if (!config.model.settings.Has(name)) {
    const bool cuts = !ModelFrom(config)->sample_coupling().whole_micro_batch();
    throw UserError(fmt::format("plimsoll plan: --max {}: models of family {} have no such key{}",
                                key, config.model.family,
                                cuts ? "; ask for train.micro_batch" : ""));
  }
  const bool loaded = !config.model.init_from.empty();
  if (loaded && name == "layers") {
    throw UserError(
        "plimsoll plan: --max model.layers: the layers come from the checkpoint of "
        "model.init_from; ask for train.micro_batch or model.sequence");
  }
  if (name == "layers") {
    return {[](RunConfig& run, int64_t value) { run.model.settings.Set("layers", value); }, 1 << 9,
            "more are not tried"};
  }
  const bool limited = loaded || config.IsSet("model.max_sequence");
  const int64_t limit = limited ? config.model.settings.IntOr("max_sequence", kMost) : kMost;
  return {[limited](RunConfig& run, int64_t value) {
            Settings& settings = run.model.settings;
            settings.Set("sequence", value);
            if (limited) return;
            settings.Remove("max_sequence");  // max_sequence is derived again, as in a file
            models::Complete(*models::FindFamily(run.model.family), settings);
          },
          limit, limited ? "model.max_sequence allows no more" : "more are not tried"};
}

// A straight line through the last two points.
class Line {
 public:
  void Add(int64_t value, int64_t bytes) {
    before_ = last_;
    last_ = {static_cast<double>(value), static_cast<double>(bytes)};
    ++points_;
  }
  // The largest value on the line with at most `bytes` bytes; nullopt if there are fewer than two
  // points.
  std::optional<int64_t> Reaches(int64_t bytes) const {
    if (points_ < 2) return std::nullopt;
    const double slope = (last_.bytes - before_.bytes) / (last_.value - before_.value);
    if (slope <= 0) return std::nullopt;
    constexpr double kFar = 1e15;
    const double value = last_.value + (static_cast<double>(bytes) - last_.bytes) / slope;
    return static_cast<int64_t>(std::clamp(value, 0.0, kFar));
  }

 private:
  struct Point {
    double value = 0, bytes = 0;
  } before_, last_;
  int points_ = 0;
};

// The search tries no value beyond this multiple of the largest value known to fit.
constexpr int64_t kStride = 64;

}  // namespace

void PrintLargest(const RunConfig& given, const std::string& key, bool json) {
  RunConfig config = given;
  TakeGpuAsBudget(config);
  if (!config.memory.budget) {
    throw UserError(
        "plimsoll plan: --max needs a line to stay under; give --budget, or a GPU by --device");
  }
  const Growing growing = GrowingKey(config, key);
  if (config.train.micro_batch == 0 && key != "train.micro_batch") {
    throw config.Error("train.micro_batch",
                       "auto and --max together leave too much open; give a number");
  }
  // A growing micro-batch leaves the number of micro-steps unchanged.
  config.train.SetMicroSteps(config.train.micro_batch, config.train.accumulate);
  const memory::Budget budget = BudgetOf(config);
  const Activity activity(fmt::format("looking for the largest {} that fits", key));
  RunConfig one = config;
  growing.set(one, growing.unit);
  RequireRoomForParameters(one, budget);
  memory::ExactPlan best;
  // The smallest arena with that value, among the named policies or among all plans.
  const auto smallest = [&](int64_t value, bool policies) {
    RunConfig run = config;
    growing.set(run, value * growing.unit);
    StepSolver solver(run, {.built_in_rates = true, .policies = policies});
    return *solver.solver().Smallest(budget).exact;
  };
  const auto fits = [&](const memory::ExactPlan& plan) {
    return plan.needed_bytes <= budget.device && plan.host_bytes <= budget.host;
  };
  // Memory grows with each of these keys, often in a straight line.
  const auto search = [&](int64_t good, bool policies) {
    Line line;
    int64_t bad = growing.limit + 1;
    for (int tries = 0; bad - good > 1; ++tries) {
      const int64_t middle = bad > growing.limit ? 2 * good : good + (bad - good) / 2;
      const int64_t next = tries % 4 == 3 ? middle : line.Reaches(budget.device).value_or(good + 1);
      const int64_t value = std::clamp(next, good + 1, std::min(bad - 1, kStride * (good + 1)));
      const memory::ExactPlan plan = smallest(value, policies);
      line.Add(value, plan.needed_bytes);
      if (!fits(plan)) {
        bad = value;
        continue;
      }
      good = value;
      best = plan;
    }
    return good;
  };
  // First searches with the named policies only, which come near the result. The best of all plans
  // is at most as large, so the full search begins there.
  const int64_t near = search(0, true);
  const int64_t good = near == growing.limit ? near : search(std::max<int64_t>(near - 1, 0), false);
  if (good == 0) {
    StepSolver solver(one, {.built_in_rates = true});
    RefuseBudget(budget, solver);
  }
  const bool limited = good == growing.limit;
  if (json) {
    PrintAnswer(fmt::format(
        "{}\n",
        nlohmann::ordered_json{{"key", key},
                               {"largest", good * growing.unit},
                               {"arena_bytes", best.arena_bytes},
                               {"host_arena_bytes", best.host_arena_bytes},
                               {"process_bytes", budget.profile.ProcessBytes(best.taken_bytes)},
                               {"budget_bytes", budget.process()},
                               {"limited_by_budget", !limited}}
            .dump(1)));
    return;
  }
  PrintAnswer(fmt::format(
      "{}: {} is the largest that fits in {}{} (arena {}){}\n", key, good * growing.unit,
      FormatBytes(budget.process()), given.memory.budget ? "" : ", " + MemoryLineOf(config).whose,
      FormatBytes(best.taken_bytes), limited ? "; " + growing.limit_reason : ""));
}

}  // namespace plimsoll::trainer
