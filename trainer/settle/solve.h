// The budget of a run: what memory.budget means on this machine, and the plan that is chosen for
// it.
//
// On the CPU the budget bounds both arenas, the bytes that a plan needs, exactly. On a GPU it
// bounds all memory that the process takes there: the arena and the parts that
// memory/device_profile.h counts. memory.host_budget bounds the second arena, for tensors that are
// offloaded or placed on the host.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory/solver.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/settle/knobs.h"
#include "trainer/step/caching.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// The bytes of "24GiB"; of "90%" of the machine's memory, or of the GPU's for memory.budget on a
// GPU; or of "free - 1GiB", from the memory that is free now. UserError, naming `key`, when nothing
// is left, or when there is no GPU to ask.
int64_t BytesOf(const config::MemorySize& size, const config::RunConfig& config,
                const std::string& key);
// The part of memory.budget and memory.host_budget that is left for the arenas. UserError with
// ExitCode::kBudgetNotMet when the process without an arena takes more than that of the GPU.
memory::Budget BudgetOf(const config::RunConfig& config);

// What memory.budget leaves for the device's arena of this plan; nothing without a budget.
std::optional<int64_t> ArenaBudget(const config::RunConfig& config, const memory::MemoryPlan& plan);

// Nothing with `memory.allocator: planned`. UserError on settings that don't work with caching.
std::optional<CachingOptions> CachingFrom(const config::RunConfig& config);

// True if the file leaves a choice to the solver (FirstOpen).
bool LeavesChoice(const config::RunConfig& config);

// UserError when the file leaves a choice and has no memory.budget to choose within.
void RequireBudget(const config::RunConfig& config);

// A cost model with the built-in rates of the run's device.
memory::CostModel BuiltInCost(const config::RunConfig& config);
// The cost of these programs' nodes: timed on this device, unless memory.calibrate is false.
memory::CostModel CostModelFor(const config::RunConfig& config,
                               std::span<const graph::Program* const> programs);
// The source of the model's times: "by built-in rates of an NVIDIA H200, scaled to the data sheet
// of an NVIDIA T4", "by rates measured here on 2026-11-20".
std::string RatesText(const config::RunConfig& config, const memory::CostModel& cost);
// The time of a whole step: all micro-steps and the update.
double PredictSeconds(const CompiledStep& compiled, const memory::CostModel& cost);

struct StepSolverOptions {
  bool built_in_rates = false;  // enough to find out how small a plan can be
  bool coarse = false;          // few options, for a quick look
  bool policies = false;        // the named policies alone
};

// The candidate plans of a run.
class StepSolver {
 public:
  // Times the ops on this device first, unless memory.calibrate is false.
  explicit StepSolver(const config::RunConfig& config, const StepSolverOptions& options = {});
  ~StepSolver();

  memory::Solver& solver();
  const models::Model& model() const;
  const memory::CostModel& cost() const;
  const memory::PlanOptions& plan_options() const;

  // The run as it was given, and with the choices of a variant.
  const config::RunConfig& config() const;
  const config::RunConfig& ConfigOf(size_t variant) const;
  config::RunConfig ConfigOf(const memory::Candidate& candidate) const;
  // Why no variant uses a key that the run leaves open; empty: some do.
  std::string WhyLeftOut(const Knob& knob) const;
  CompileOptions OptionsOf(const memory::Candidate& candidate) const;

  // The tensors that are recomputed or offloaded: "blocks 0-7: recompute norm_1, norm_2, gelu".
  std::string Describe(const memory::Candidate& candidate) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A run as it will be compiled.
struct SettledRun {
  config::RunConfig config;  // no key is auto any more
  CompileOptions options;
  // What the solver chose and why, for the log; empty when nothing was left to it.
  std::string chosen;
};

// Makes the choices that the file leaves open, within memory.budget. UserError when a choice is
// open and there is no budget; with ExitCode::kBudgetNotMet when no allowed plan fits.
SettledRun Settle(const config::RunConfig& config, const models::Model& model);

// The smallest plan of a run (memory::Solver::Smallest): among its candidates, or its only plan
// when it leaves nothing open.
memory::ExactPlan SmallestPlan(const config::RunConfig& config, const memory::Budget& budget,
                               bool coarse = false);

// Found without a search: whether a memory.budget is as large as the parameters alone, and the
// refusal of one that isn't.
bool HasRoomForParameters(const config::RunConfig& config, const memory::Budget& budget);
void RequireRoomForParameters(const config::RunConfig& config, const memory::Budget& budget);

// Throws the UserError with ExitCode::kBudgetNotMet for a run without a plan that fits.
[[noreturn]] void RefuseBudget(const config::RunConfig& config, const memory::Budget& budget);
[[noreturn]] void RefuseBudget(const config::RunConfig& config, const memory::Budget& budget,
                               StepSolver& solver);

// Refuses a compiled plan that exceeds memory.budget or memory.host_budget, and suggests changes.
void CheckBudget(const config::RunConfig& config, const memory::MemoryPlan& plan);

}  // namespace plimsoll::trainer
