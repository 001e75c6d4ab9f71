// A budget for each stage of a pipeline, and stages that take nearly as long.
#include "trainer/resolve/stage_plans.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "tests/support/temp_folder.h"
#include "trainer/plan/memory_timeline.h"
#include "trainer/resolve/budget_error.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/resolve/stages_from.h"
#include "trainer/resolve/ways_to_fit.h"

namespace plimsoll::trainer {
namespace {

using testing::HasSubstr;

// At built-in rates: a test must not depend on the machine's speed.
config::RunConfig StagedRun(const std::vector<std::string>& sets, int64_t stages = 3,
                            int64_t ranks = 0) {
  const TempFolder folder;
  const std::string file =
      folder.Write("run.yaml",
                   "model: {family: gpt2, layers: 6, width: 32, heads: 2, vocab: 96, sequence: 32, "
                   "tied: false, dropout: 0.1}\n"
                   "data: {synthetic: true}\n"
                   "train: {steps: 2, micro_batch: 4, accumulate: 5, threads: 1, eval_every: 1}\n"
                   "memory: {calibrate: false}\ndebug: {verify_drafts: true}\n");
  std::vector<std::string> all = {fmt::format("parallel.pipeline={}", stages)};
  all.insert(all.end(), sets.begin(), sets.end());
  return LoadRun(file, all, config::RankCount::Started(ranks > 0 ? ranks : stages)).config;
}

std::vector<CompiledStep> StepsOf(const models::Model& model, const CompileOptions& options) {
  std::vector<CompiledStep> steps;
  steps.push_back(Compile(model, options));
  for (CompiledStep& other : CompileOtherStages(model, steps.front())) {
    steps.push_back(std::move(other));
  }
  return steps;
}

std::vector<int64_t> ArenasWith(const std::string& policy) {
  const config::RunConfig config = StagedRun({"checkpointing.policy=" + policy});
  const auto model = ModelFrom(config);
  std::vector<int64_t> arenas;
  for (const CompiledStep& step : StepsOf(*model, ResolveRun(config, *model).options)) {
    arenas.push_back(step.plan.arena_bytes);
  }
  return arenas;
}

config::RunConfig WithBudget(int64_t bytes, int64_t stages = 3) {
  return StagedRun({"checkpointing.policy=auto", fmt::format("memory.budget={}", bytes)}, stages);
}

// Early stages have more micro-batches in flight, so they recompute more.
TEST(StagePlans, ChooseForEachStageWithinTheBudget) {
  const std::vector<int64_t> all = ArenasWith("none"), least = ArenasWith("block");
  const int64_t most = *std::ranges::max_element(all);
  EXPECT_EQ(most, all.front());
  const int64_t smallest = *std::ranges::max_element(least);
  ASSERT_LT(smallest, most);
  std::set<std::string> choices;
  double slower = 1e9;
  for (int i = 0; i <= 4; i += 2) {
    const int64_t budget = smallest + (most - smallest) * i / 4;
    SCOPED_TRACE(budget);
    const StagePlans plans(WithBudget(budget));
    std::vector<double> again;  // nodes
    for (const CompiledStep& step : StepsOf(plans.model(), plans.Options())) {
      EXPECT_LE(step.plan.arena_bytes, budget);
      again.push_back(OverStep(step, [](const graph::Program&, const graph::Node& node) {
        return node.phase == graph::Phase::kRecompute ? 1.0 : 0.0;
      }));
    }
    EXPECT_EQ(again[0] > again[2], i < 4);
    EXPECT_EQ(again[0] == 0, i == 4);
    EXPECT_LE(plans.Seconds(), slower * (1 + 1e-9));
    slower = plans.Seconds();
    choices.insert(plans.Describe());
  }
  EXPECT_EQ(choices.size(), 3u);
}

// Solvers of stages predict what is compiled.
TEST(StagePlans, ArePlannedAsTheyRun) {
  const std::vector<int64_t> all = ArenasWith("none");
  for (int64_t stage = 0; stage < 3; ++stage) {
    config::RunConfig config = WithBudget(all.front());
    ChooseStages(config, *ModelFrom(config));
    StepSolver solver(config, {.stage = stage});
    const int64_t least = solver.solver().Smallest().exact->needed_bytes;
    const int64_t most = solver.solver().Fastest({})->exact->arena_bytes;
    EXPECT_EQ(most, all[static_cast<size_t>(stage)]);
    EXPECT_EQ(solver.solver().Fastest({.device = least - 1}), nullptr);
    double slower = 1e9;
    for (int i = 0; i <= 4; ++i) {
      const int64_t budget = least + (most - least) * i / 4;
      const memory::Candidate* const plan = solver.solver().Fastest({.device = budget});
      ASSERT_NE(plan, nullptr);
      const CompiledStep step = Compile(solver.model(), solver.OptionsOf(*plan));
      EXPECT_EQ(step.plan.arena_bytes, plan->exact->arena_bytes);
      EXPECT_LE(plan->exact->arena_bytes, budget);
      EXPECT_LE(plan->exact->seconds, slower);
      EXPECT_NEAR(PredictSeconds(step, solver.cost()), plan->exact->seconds,
                  1e-9 * plan->exact->seconds);
      // Bounds are no more than that, and not much less.
      const auto predicted = static_cast<double>(plan->predicted.device_bytes);
      EXPECT_LE(predicted, 1.001 * static_cast<double>(plan->exact->max_live_bytes));
      EXPECT_GE(predicted, 0.8 * static_cast<double>(plan->exact->max_live_bytes));
      slower = plan->exact->seconds;
    }
  }
}

// What slots keep outweighs parameters and state.
TEST(StagePlans, LeaveBlocksToOthersWhereTheyDoNotFit) {
  const auto run = [](int64_t budget) {
    return StagedRun({"checkpointing.policy=auto", "train.micro_batch=64", "train.eval_every=0",
                      fmt::format("memory.budget={}", budget)});
  };
  config::RunConfig even = run(int64_t{1} << 30);
  ChooseStages(even, *ModelFrom(even));
  StepSolver first(even, {.stage = 0});
  const int64_t budget = first.solver().Smallest().exact->needed_bytes - 1;
  const StagePlans plans(run(budget));
  EXPECT_LT(plans.config().parallel.stages[0], even.parallel.stages[0]);
  for (const CompiledStep& step : StepsOf(plans.model(), plans.Options())) {
    EXPECT_LE(step.plan.arena_bytes, budget);
  }
  EXPECT_THAT(plans.Describe(), HasSubstr("parallel.stages: [1, "));
  EXPECT_THAT(plans.Describe(), HasSubstr("stage 0 has no plan that fits"));
}

TEST(StagePlans, SayWhichStageDoesNotFit) {
  try {
    const StagePlans plans(WithBudget(100'000));
    FAIL() << "it fits";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kBudgetNotMet);
    EXPECT_THAT(error.what(), HasSubstr("memory.budget"));
    EXPECT_THAT(error.what(), HasSubstr("the smallest plan of stage 0 needs"));
  }
}

// The bytes that a refusal of `run` within a small budget says to be enough.
int64_t BytesEnough(const std::function<config::RunConfig(int64_t)>& run) {
  try {
    const StagePlans plans(run(10'000));
  } catch (const UserError& error) {
    const std::string text = error.what();
    static const std::regex kEnough(R"(\((\d+) bytes, enough for every stage)");
    std::smatch match;
    if (std::regex_search(text, match, kEnough)) return std::stoll(match[1]);
    ADD_FAILURE() << text;
  }
  return 0;
}

// Of a division that the budget decides, with many parameters or many activations, and of a given
// one, whose last stage needs the most.
TEST(StagePlans, NameTheLeastBudgetOfAllStages) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"train.micro_batch=64"}, {"parallel.stages=[1, 3]"}}) {
    SCOPED_TRACE(testing::PrintToString(more));
    const auto run = [&](int64_t budget) {
      std::vector<std::string> sets = {"checkpointing.policy=auto", "debug.verify_drafts=false",
                                       "model.layers=4", fmt::format("memory.budget={}", budget)};
      sets.insert(sets.end(), more.begin(), more.end());
      return StagedRun(sets, 2);
    };
    const int64_t enough = BytesEnough(run);
    EXPECT_NO_THROW(StagePlans{run(enough)});
    EXPECT_THROW(StagePlans{run(enough - 1)}, UserError);
  }
}

// Each advised change makes all stages fit, with the bytes that it is said to need.
TEST(StagePlans, AdviseChangesThatMakeAllStagesFit) {
  const auto run = [](const std::vector<std::string>& more, int64_t budget) {
    std::vector<std::string> sets = {"checkpointing.policy=auto",
                                     "train.micro_batch=64",
                                     "train.eval_every=0",
                                     "debug.verify_drafts=false",
                                     "model.layers=4",
                                     fmt::format("memory.budget={}", budget)};
    sets.insert(sets.end(), more.begin(), more.end());
    return StagedRun(sets, 2);
  };
  const int64_t enough = BytesEnough([&](int64_t budget) { return run({}, budget); });
  const config::RunConfig config = run({}, enough - 1);
  const WaysToFit ways = FindWaysToFit(config, {enough, 0}, LimitsOf(BudgetOf(config)));
  ASSERT_FALSE(ways.single.empty());
  for (const Way& way : ways.single) {
    SCOPED_TRACE(way.text);
    EXPECT_LT(way.needs.process, enough);
    EXPECT_NO_THROW(StagePlans{run(way.sets, way.needs.process)});
  }
}

// Data ranks of a stage may share its state.
TEST(StagePlans, AdviseShardedState) {
  const auto run = [](const std::string& zero) {
    return StagedRun(
        {"parallel.data=2", "model.width=64", "debug.verify_drafts=false", "model.layers=4", zero},
        2, 4);
  };
  const auto needs_of = [](const config::RunConfig& config) {
    const auto model = ModelFrom(config);
    Needs needs;
    for (const CompiledStep& step : StepsOf(*model, ResolveRun(config, *model).options)) {
      needs.process = std::max(needs.process, step.plan.arena_bytes);
    }
    return needs;
  };
  const Needs sharded = needs_of(run("parallel.zero=1"));
  const config::RunConfig config = run("parallel.zero=0");
  const WaysToFit ways = FindWaysToFit(config, needs_of(config), sharded);
  EXPECT_THAT(ways.Text(""), HasSubstr("parallel.zero: 1 (" + FormatBytes(sharded.process) + ")"));
}

// What a stage keeps from a forward to a backward pass is alive while its value is needed: at each
// node, the bytes of all that is alive add up to those of the plan.
TEST(StagePlans, HaveTimelinesOfWhatTheyKeep) {
  const config::RunConfig config = StagedRun({});
  const auto model = ModelFrom(config);
  size_t kept = 0, within = 0;  // kept tensors, and those that are not alive throughout a program
  for (const CompiledStep& step : StepsOf(*model, ResolveRun(config, *model).options)) {
    const nlohmann::ordered_json timeline = MemoryTimelineJson(step);
    int64_t persistent = 0;
    for (const auto& tensor : timeline.at("persistent")) {
      persistent += tensor.at("bytes").get<int64_t>();
    }
    for (const auto& program : timeline.at("programs")) {
      SCOPED_TRACE(program.at("name"));
      std::vector<int64_t> live(program.at("nodes").size(), persistent);
      for (const auto& buffer : program.at("buffers")) {
        const size_t birth = buffer.at("birth"), death = buffer.at("death");
        for (size_t n = birth; n <= death; ++n) live[n] += buffer.at("bytes").get<int64_t>();
        if (!buffer.contains("kept")) continue;
        ++kept;
        within += birth > 0 || death + 1 < live.size();
      }
      EXPECT_EQ(program.at("live_bytes").get<std::vector<int64_t>>(), live);
    }
  }
  EXPECT_GT(within, 0u);
  EXPECT_GT(kept, within);
}

// The head of a large vocabulary counts.
TEST(StagesFrom, CountSecondsOfAllParts) {
  const auto costs = [](const std::string& vocab) {
    const config::RunConfig config = StagedRun({"model.vocab=" + vocab});
    return CostsOfBlocks(config, *ModelFrom(config));
  };
  const parallel::ModelCosts small = costs("96"), large = costs("5000");
  ASSERT_EQ(small.blocks.size(), 6u);
  EXPECT_GT(large.after, 10 * small.after);
  EXPECT_NEAR(large.blocks[2], small.blocks[2], 1e-9 * small.blocks[2]);
  EXPECT_NEAR(small.blocks[1], small.blocks[4], 1e-3 * small.blocks[1]);
  EXPECT_GT(small.before, 0);
}

// Of a plan without choices, too.
TEST(StagePlans, NameTheStageOfAPlanBeyondTheBudget) {
  const config::RunConfig config = StagedRun({"parallel.stages=[1, 1, 4]", "memory.budget=1MiB"});
  const auto model = ModelFrom(config);
  const std::vector<CompiledStep> steps = StepsOf(*model, ResolveRun(config, *model).options);
  EXPECT_NO_THROW(CheckBudget(config, steps[1].plan, 1));
  try {
    CheckBudget(config, steps[2].plan, 2);
    FAIL() << steps[2].plan.arena_bytes;
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kBudgetNotMet);
    EXPECT_THAT(error.what(), HasSubstr("; the plan of stage 2 needs "));
  }
}

}  // namespace
}  // namespace plimsoll::trainer
