#include "trainer/resolve/budget_error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/resolve/run_device.h"
#include "trainer/resolve/stages_from.h"
#include "trainer/resolve/step_draft.h"
#include "trainer/resolve/ways_to_fit.h"

namespace plimsoll::trainer {
namespace {

using config::PlaceOrAuto;
using config::RunConfig;

// The bytes that stay on the device if the host holds as much as possible.
StepDraft::ResidentBytes LeastOnDevice(const RunConfig& config) {
  const auto model = ModelFrom(config);
  const std::vector<RunConfig> all = Alternatives(config, *model);
  RunConfig run = *std::ranges::max_element(all, {}, [](const RunConfig& made) {
    return std::pair(made.memory.weights == PlaceOrAuto::kHost,
                     made.optimizer.place == PlaceOrAuto::kHost);
  });
  run.train.eval_every = run.train.sample_every = 0;
  return StepDraft(run, *model).OnDevice();
}

std::string LargestConsumer(const memory::MemoryPlan& plan) {
  const auto largest = std::ranges::max_element(plan.bytes_by_role);
  std::string name(graph::Name(static_cast<graph::Role>(largest - plan.bytes_by_role.begin())));
  std::ranges::replace(name, '_', ' ');
  return fmt::format("{}, {}", name, FormatBytes(*largest));
}

// `needs`: the needs of the run, whose smallest plan is `smallest`. Of a pipeline, both are of the
// stage that needs the most; `whose` is its text, and `enough` says that no stage needs more.
[[noreturn]] void ThrowBudgetNotMet(const RunConfig& config, const memory::Budget& budget,
                                    const memory::MemoryPlan& smallest, const Needs& needs,
                                    const std::string& whose = "", const std::string& enough = "") {
  const Needs lines = LimitsOf(budget);
  const WaysToFit ways = FindWaysToFit(config, needs, lines);
  // The message compares with the device's limit, or with the host's.
  const bool device = ways.of_device;
  const std::string key = device ? "memory.budget" : "memory.host_budget";
  const auto of = [&](const Needs& both) { return device ? both.process : both.host; };
  const auto other_of = [&](const Needs& both) { return device ? both.host : both.process; };

  int64_t parameters = 0;
  for (const memory::PersistentTensor& tensor : smallest.persistent) {
    const bool here = tensor.place == graph::Place::kDevice;
    if (here && tensor.role == graph::Role::kParameter) parameters += tensor.bytes;
  }
  std::string line = fmt::format("{} ({} bytes)", FormatBytes(of(lines)), of(lines));
  if (device && config.memory.budget && MemoryLineOf(config).of_card) {
    line += fmt::format(", which is all that an {} has", budget.profile.device);
  }
  if (device && lines.process < parameters) {
    line += fmt::format(" is less than the parameters alone ({})", FormatBytes(parameters));
  }
  std::string parts;
  if (device) parts = "; the largest part: " + LargestConsumer(smallest);
  if (device && budget.profile.overhead_bytes() > 0) {
    parts +=
        fmt::format("; {} of it outside the arena", FormatBytes(budget.profile.overhead_bytes()));
  }
  if (!device && smallest.host_input_bytes > 0) {
    parts = fmt::format("; {} of it for batches, which data.workers: 0 leaves out",
                        FormatBytes(smallest.host_input_bytes));
  }
  std::string also;
  if (other_of(needs) > other_of(lines)) {
    also = fmt::format(", and memory.host_budget: {} ({} bytes)", FormatBytes(other_of(needs)),
                       other_of(needs));
  }
  throw UserError(fmt::format("{}: {}: {}; {}{} needs {} ({} bytes{}{}){}; {}", config.Origin(key),
                              key, line, LeavesChoice(config) ? "the smallest plan" : "the plan",
                              whose, FormatBytes(of(needs)), of(needs), enough, parts, also,
                              ways.Text("raise the budget or make the model smaller")),
                  ExitCode::kBudgetNotMet);
}

}  // namespace

bool HasRoomForState(const RunConfig& config, const memory::Budget& budget) {
  return LeastOnDevice(config).all <= budget.process();
}

void RequireRoomForParameters(const RunConfig& config, const memory::Budget& budget) {
  const int64_t parameters = LeastOnDevice(config).parameters;
  if (parameters <= budget.process()) return;
  std::string halves;
  if (config.amp.dtype == config::Dtype::kFp32 || config.amp.dtype == config::Dtype::kTf32) {
    RunConfig low = config;
    low.amp.dtype = HalfFrom(config);
    halves = fmt::format("; with amp.dtype: {} they take {}", ToString(low.amp.dtype),
                         FormatBytes(LeastOnDevice(low).parameters));
  }
  const bool of_card = MemoryLineOf(config).of_card;
  throw UserError(
      fmt::format(
          "{}: memory.budget: {} ({} bytes){} is less than the parameters alone ({}){}; {}make the "
          "model smaller,{} or have more ranks share it (parallel.tensor, parallel.zero: 3)",
          config.Origin("memory.budget"), FormatBytes(budget.process()), budget.process(),
          of_card ? fmt::format(", which is all that an {} has,", budget.profile.device) : "",
          FormatBytes(parameters), halves, of_card ? "" : "raise the budget, ",
          IsOneMemory(config) ? "" : " keep its weights on the host (memory.weights: host),"),
      ExitCode::kBudgetNotMet);
}

void RefuseBudget(const memory::Budget& budget, StepSolver& solver) {
  const SmallestPlan smallest = SmallestOf(solver, LimitsOf(budget));
  ThrowBudgetNotMet(solver.config(), budget, smallest.plan, smallest.needs);
}

void RefuseStages(const RunConfig& config, const memory::Budget& budget,
                  const SmallestStages& smallest) {
  RunConfig divided = config;
  divided.parallel.stages.assign(smallest.blocks.begin(), smallest.blocks.end());
  StepSolver solver(divided, {.built_in_rates = true, .stage = smallest.largest});
  std::string enough = ", enough for every stage";
  if (smallest.blocks != StagesFrom(config, solver.model())) {
    enough += fmt::format(" with parallel.stages: [{}]", fmt::join(smallest.blocks, ", "));
  }
  ThrowBudgetNotMet(config, budget, SmallestOf(solver, LimitsOf(budget)).plan, smallest.needs,
                    fmt::format(" of stage {}", smallest.largest), enough);
}

void CheckBudget(const RunConfig& config, const memory::MemoryPlan& plan, int64_t stage) {
  const memory::Budget budget = BudgetOf(config);
  const int64_t arena = ArenaBytes(config, plan);
  if (arena <= budget.device && plan.host_bytes() <= budget.host) return;
  if (config.parallel.pipeline > 1 && !LeavesChoice(config)) {
    RefuseStages(config, budget, SmallestOfStages(config, LimitsOf(budget)));
  }
  const std::string whose = config.parallel.pipeline > 1 ? fmt::format(" of stage {}", stage) : "";
  ThrowBudgetNotMet(config, budget, plan, {budget.profile.ProcessBytes(arena), plan.host_bytes()},
                    whose);
}

}  // namespace plimsoll::trainer
