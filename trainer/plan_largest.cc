// `plimsoll plan --max KEY`.
#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "trainer/from_config.h"
#include "trainer/plan_table.h"

namespace plimsoll::trainer {
namespace {

using config::RunConfig;

// A key that can grow: how to set it, and up to what.
struct Growing {
  std::function<void(RunConfig&, int64_t)> set;
  int64_t limit;
  std::string limit_reason;
  int64_t step = 1;
};

Growing GrowingKey(const RunConfig& config, const std::string& key) {
  constexpr int64_t kMost = 1 << 20;
  if (key == "train.micro_batch") {
    return {[](RunConfig& run, int64_t value) { run.train.micro_batch = value; }, kMost, ""};
  }
  const bool loaded = !config.model.init_from.empty();
  if (key == "model.sequence") {
    const bool limited = loaded || config.IsSet("model.max_sequence");
    const int64_t limit =
        limited && config.model.max_sequence > 0 ? config.model.max_sequence : kMost;
    return {[limited](RunConfig& run, int64_t value) {
              run.model.sequence = value;
              if (!limited) run.model.max_sequence = value;
            },
            limit, limited ? "model.max_sequence allows no more" : ""};
  }
  if (key == "model.layers" && !loaded) {
    return {[](RunConfig& run, int64_t value) { run.model.layers = value; }, 1 << 14, ""};
  }
  if (key == "model.layers") {
    throw UserError(
        "plimsoll plan: --max model.layers: the layers come from the checkpoint of "
        "model.init_from; ask for train.micro_batch or model.sequence");
  }
  throw UserError(
      fmt::format("plimsoll plan: --max {}: no key that can grow; ask for "
                  "train.micro_batch, model.sequence or model.layers",
                  key));
}

}  // namespace

void PrintLargest(const RunConfig& given, const std::string& key, bool json) {
  if (!given.memory.budget) {
    throw UserError("plimsoll plan: --max needs a line to stay under; give --budget");
  }
  RunConfig config = given;
  const Growing growing = GrowingKey(config, key);
  if (config.train.micro_batch == 0 && key != "train.micro_batch") {
    throw config.Error("train.micro_batch",
                       "auto and --max together leave too much open; give a number");
  }
  // A micro-batch that grows leaves the number of micro-steps as it is.
  config.train.global_batch.reset();
  config.train.global_batch_tokens.reset();
  const memory::Budget budget = BudgetOf(config);
  memory::ExactPlan best;
  const auto fits = [&](int64_t value) {
    RunConfig run = config;
    growing.set(run, value);
    const memory::ExactPlan plan = SmallestPlan(run, budget);
    const bool fit = plan.needed_bytes <= budget.device && plan.host_arena_bytes <= budget.host;
    if (fit) best = plan;
    return fit;
  };
  // Memory grows with each of these keys: doubling finds an interval, halving the largest value.
  int64_t good = 0, bad = 1;
  while (bad <= growing.limit && fits(bad)) {
    good = bad;
    bad *= 2;
  }
  bad = std::min(bad, growing.limit + 1);
  if (good == 0) {
    RunConfig one = config;
    growing.set(one, 1);
    RefuseBudget(one, budget);
  }
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  const bool limited = good == growing.limit;
  if (json) {
    PrintAnswer(fmt::format(
        "{}\n",
        nlohmann::ordered_json{{"key", key},
                               {"largest", good},
                               {"arena_bytes", best.arena_bytes},
                               {"host_arena_bytes", best.host_arena_bytes},
                               {"process_bytes", budget.profile.ProcessBytes(best.arena_bytes)},
                               {"budget_bytes", budget.process()},
                               {"limited_by_budget", !limited}}
            .dump(1)));
    return;
  }
  PrintAnswer(fmt::format("{}: {} is the largest that fits in {} (arena {}){}\n", key, good,
                          FormatBytes(budget.process()), FormatBytes(best.arena_bytes),
                          limited ? "; " + growing.limit_reason : ""));
}

}  // namespace plimsoll::trainer
