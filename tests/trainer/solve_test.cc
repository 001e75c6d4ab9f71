// The budget of whole runs: its laws over many budgets and models, and its choices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/tiny_session.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/resolve/step_solver.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

using testing::HasSubstr;

struct NamedRun {
  std::string name, yaml;
};

const std::vector<NamedRun>& Runs() {
  static const std::vector<NamedRun> runs = {
      {"Gpt2",
       "model: {family: gpt2, layers: 4, width: 32, heads: 2, vocab: 96, sequence: 32, "
       "dropout: 0.1}\n"
       "train: {steps: 2, micro_batch: 4, threads: 2, eval_every: 0}\n"},
      {"Llama",
       "model: {family: llama, layers: 5, width: 32, heads: 2, kv_heads: 1, vocab: 96, "
       "sequence: 32}\n"
       "train: {steps: 2, micro_batch: 3, threads: 2, eval_every: 0}\n"},
      {"Gpt2Accumulated",
       "model: {family: gpt2, layers: 3, width: 32, heads: 2, vocab: 96, sequence: 32}\n"
       "train: {steps: 2, micro_batch: 4, accumulate: 4, threads: 2, eval_every: 1}\n"},
      {"Qwen2AnyMicroBatch",
       "model: {family: qwen2, layers: 2, width: 32, heads: 2, vocab: 96, sequence: 16}\n"
       "train: {steps: 2, micro_batch: auto, global_batch: 12, threads: 2, eval_every: 0}\n"},
      {"Gpt2Offloaded",
       "model: {family: gpt2, layers: 3, width: 32, heads: 2, vocab: 96, sequence: 32}\n"
       "train: {steps: 2, micro_batch: 4, threads: 2, eval_every: 0}\n"
       "checkpointing: {policy: auto, offload: ['*.mlp.*']}\n"},
  };
  return runs;
}

// At built-in rates: a test must not depend on the machine's speed.
config::RunConfig RunOf(const NamedRun& run) {
  const TempFolder folder;
  std::string yaml = run.yaml;
  if (yaml.find("checkpointing") == std::string::npos) yaml += "checkpointing: {policy: auto}\n";
  yaml +=
      "data: {synthetic: true}\nmemory: {calibrate: false, budget: 1GiB}\n"
      "debug: {verify_drafts: true}\n";
  return LoadRun(folder.Write("run.yaml", yaml), {}).config;
}

class Law : public testing::TestWithParam<int> {};

TEST_P(Law, UsedWithinBudgetPredictedIsUsedAndMoreIsNeverSlower) {
  const config::RunConfig config = RunOf(Runs()[GetParam()]);
  StepSolver solver(config);
  const int64_t least = solver.solver().Smallest().exact->needed_bytes;
  const int64_t most = solver.solver().Fastest({})->exact->arena_bytes;
  ASSERT_LT(least, most);
  EXPECT_EQ(solver.solver().Fastest({.device = least - 1}), nullptr);
  constexpr int kBudgets = 24;
  double slower = 1e9;
  std::vector<const memory::Candidate*> chosen;
  for (int i = 0; i <= kBudgets; ++i) {
    const int64_t budget = least + (most - least) * i / kBudgets;
    const memory::Candidate* plan = solver.solver().Fastest({.device = budget});
    ASSERT_NE(plan, nullptr);
    EXPECT_LE(plan->exact->arena_bytes, budget);
    EXPECT_LE(plan->exact->seconds, slower);
    slower = plan->exact->seconds;
    if (chosen.empty() || chosen.back() != plan) chosen.push_back(plan);
  }
  EXPECT_GE(chosen.size(), 4u);

  // The compiled plan, and the memory that a step then touches, are as the solver predicted.
  for (size_t i = 0; i < chosen.size(); i += 1 + chosen.size() / 5) {
    const CompiledStep compiled = Compile(solver.model(), solver.OptionsOf(*chosen[i]));
    EXPECT_EQ(compiled.plan.arena_bytes, chosen[i]->exact->arena_bytes);
    EXPECT_EQ(compiled.plan.host_arena_bytes, chosen[i]->exact->host_arena_bytes);
    EXPECT_NEAR(PredictSeconds(compiled, solver.cost()), chosen[i]->exact->seconds,
                1e-9 * chosen[i]->exact->seconds);
    ThreadPool pool(compiled.options.threads);
    Session session(Compile(solver.model(), solver.OptionsOf(*chosen[i])), pool,
                    {.check_arena = true});
    session.Initialize(solver.model(), 1);
    session.BeginStep(100, 1e-3, 1);
    for (int64_t micro = 0; micro < session.accumulate(); ++micro) session.Run(0, micro);
    EXPECT_LE(session.used_bytes(), chosen[i]->exact->arena_bytes);
    if (config.train.eval_every == 0) {
      EXPECT_EQ(session.used_bytes(), chosen[i]->exact->arena_bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, Law, testing::Range(0, 5),
                         [](const auto& info) { return Runs()[info.param].name; });

void ExpectLaw(memory::Solver& solver) {
  const int64_t least = solver.Smallest().exact->needed_bytes;
  const int64_t most = solver.Fastest({})->exact->needed_bytes;
  ASSERT_LT(least, most);
  double slower = 1e9;
  constexpr int kBudgets = 12;
  for (int i = 0; i <= kBudgets; ++i) {
    const int64_t budget = least + (most - least) * i / kBudgets;
    const memory::Candidate* plan = solver.Fastest({.device = budget});
    ASSERT_NE(plan, nullptr);
    EXPECT_LE(plan->exact->arena_bytes, budget);
    EXPECT_LE(plan->exact->seconds, slower);
    slower = plan->exact->seconds;
  }
}

// The law holds however ranks divide things; weights that may be kept are one more choice.
TEST(Law, HoldsAmongRanks) {
  for (const char* reshard : {"true", "false"}) {
    const NamedRun run = {
        "",
        "model: {family: llama, layers: 4, width: 64, heads: 4, vocab: 128, sequence: 32}\n"
        "train: {steps: 2, micro_batch: 2, accumulate: 2, eval_every: 0}\n"
        "parallel: {data: 4, tensor: 2, sequence: true, zero: 3, reshard_after_forward: " +
            std::string(reshard) + "}\n"};
    StepSolver solver(RunOf(run));
    ExpectLaw(solver.solver());
  }
}

// Whether the parts of weights live on the host is a choice, too, with every stage of ZeRO.
TEST(Law, HoldsForWhatRanksKeepOnTheHost) {
  for (const int64_t zero : {0, 1, 3}) {
    SCOPED_TRACE(zero);
    config::RunConfig config =
        RunOf({"",
               "model: {family: llama, layers: 2, width: 1024, heads: 4, vocab: 2048, "
               "sequence: 32}\n"
               "train: {steps: 2, micro_batch: 2, accumulate: 2, eval_every: 0}\n"
               "parallel: {data: 2, zero: " +
                   std::to_string(zero) + "}\n"});
    config.memory.weights = config.optimizer.place = config::PlaceOrAuto::kAuto;
    config.debug.host_apart = true;
    StepSolver solver(config);
    ExpectLaw(solver.solver());
    const memory::Candidate& smallest = solver.solver().Smallest();
    EXPECT_EQ(solver.ConfigOf(smallest).memory.weights, config::PlaceOrAuto::kHost);
    const CompiledStep compiled = Compile(solver.model(), solver.OptionsOf(smallest));
    EXPECT_EQ(compiled.plan.arena_bytes, smallest.exact->arena_bytes);
    EXPECT_EQ(compiled.plan.host_arena_bytes, smallest.exact->host_arena_bytes);
  }
}

// On a CPU both arenas count, of what the file sends to the host and of what it may.
TEST(Law, HoldsForOneMemory) {
  for (const char* host :
       {"optimizer: {place: host}", "checkpointing: {policy: auto, offload: ['*.mlp.*']}"}) {
    SCOPED_TRACE(host);
    config::RunConfig config = RunOf(
        {"", std::string("model: {family: llama, layers: 4, width: 64, heads: 4, vocab: 128, "
                         "sequence: 64}\n"
                         "train: {steps: 2, micro_batch: 2, accumulate: 2, eval_every: 0}\n") +
                 host + "\n"});
    StepSolver solver(config);
    ExpectLaw(solver.solver());
    const memory::ExactPlan& least = *solver.solver().Smallest().exact;
    EXPECT_EQ(least.taken_bytes, least.arena_bytes + least.host_arena_bytes);
    EXPECT_GE(least.needed_bytes, least.taken_bytes);
    EXPECT_EQ(solver.solver().Fastest({.device = least.needed_bytes - 1}), nullptr);
  }
}

TEST(Decide, KeepsTheGlobalBatch) {
  config::RunConfig config = RunOf(Runs()[3]);
  const auto model = ModelFrom(config);
  const ResolvedRun resolved = ResolveRun(config, *model);
  EXPECT_EQ(resolved.config.train.micro_batch * resolved.config.train.accumulate, 12);
  EXPECT_EQ(resolved.options.micro_batch, resolved.config.train.micro_batch);
  EXPECT_EQ(resolved.options.accumulate, resolved.config.train.accumulate);
}

TEST(Decide, AutoNeedsABudget) {
  config::RunConfig config = RunOf(Runs()[0]);
  config.memory.budget.reset();
  const auto model = ModelFrom(config);
  ExpectUserError([&] { ResolveRun(config, *model); }, {"checkpointing.policy", "memory.budget"});
}

TEST(Decide, FasterThanBlockInTheSameArena) {
  for (int i : {0, 1, 2}) {
    config::RunConfig config = RunOf(Runs()[i]);
    StepSolver solver(config);
    const memory::Candidate* block = solver.solver().Policy(0, "block");
    ASSERT_NE(block, nullptr);
    const memory::Candidate* chosen =
        solver.solver().Fastest({.device = block->exact->arena_bytes});
    ASSERT_NE(chosen, nullptr);
    EXPECT_LT(chosen->exact->seconds, block->exact->seconds) << Runs()[i].name;
  }
}

TEST(Budget, OfThisMachine) {
  config::RunConfig config = RunOf(Runs()[0]);
  using config::MemorySize;
  EXPECT_EQ(BytesOf({MemorySize::Base::kAbsolute, 1.0, 12345}, config, "memory.budget"), 12345);
  const int64_t half = BytesOf({MemorySize::Base::kTotal, 0.5, 0}, config, "memory.budget");
  EXPECT_GT(half, 1 << 20);
  const int64_t whole = BytesOf({MemorySize::Base::kTotal, 1.0, 0}, config, "memory.budget");
  EXPECT_NEAR(static_cast<double>(whole), 2.0 * static_cast<double>(half), 2.0);
  EXPECT_GT(BytesOf({MemorySize::Base::kFree, 1.0, 1 << 20}, config, "memory.budget"), 0);
  try {
    BytesOf({MemorySize::Base::kFree, 1.0, int64_t{1} << 60}, config, "memory.budget");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kBudgetNotMet);
    EXPECT_THAT(error.what(), HasSubstr("subtract less"));
  }
}

}  // namespace
}  // namespace plimsoll::trainer
