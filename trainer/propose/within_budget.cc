// The choices that the budget's solver makes for a run file: how to cut the batch, what to
// recompute, and what to place on the host.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "memory/solver.h"
#include "trainer/propose/choices.h"
#include "trainer/resolve/activity.h"
#include "trainer/resolve/budget_error.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/resolve/step_solver.h"
#include "trainer/resolve/ways_to_fit.h"
#include "trainer/step/step_speed.h"

namespace plimsoll::trainer {
namespace {

using config::RunConfig;

// If a step takes more than twice this time, a smaller batch is proposed whose step takes at most
// this time.
constexpr double kLongSeconds = 60;
constexpr int64_t kLoraRank = 16;

std::string StepText(const CompileOptions& options, double seconds) {
  return fmt::format("a step of {:.0f} {}s takes about {}", TokensPerStep(options),
                     UnitOfWork(options), SpeedText(options, seconds));
}

std::string BytesText(int64_t process, int64_t host, bool gpu) {
  if (!gpu) return FormatBytes(process);
  return FormatBytes(process) + " of the GPU" +
         (host > 0 ? fmt::format(" and {} of the host, pinned", FormatBytes(host)) : "");
}

// The largest batch, with a power of two of micro-steps, whose step is not long. Empty if the
// present batch takes acceptable time, or is a single micro-step.
std::string SmallerBatch(const StepSolver& solver, const memory::Candidate& candidate) {
  CompileOptions options = solver.OptionsOf(candidate);
  const double share = kLongSeconds / candidate.exact->seconds;
  if (share > 0.5 || options.accumulate == 1) return "";
  const double most = share * static_cast<double>(options.accumulate);
  if (most < 1) return "";
  options.accumulate = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most)));
  if (options.blocks_first) options.micro_steps_per_program = options.accumulate;
  const double seconds = PredictSeconds(Compile(solver.model(), options), solver.cost());
  return fmt::format("For one GPU: with train.global_batch: {}, {}.",
                     options.micro_batch * options.accumulate, StepText(options, seconds));
}

// "adapters take 6.10 GiB of the GPU with --lora 16", within the budget. Empty if the run has
// adapters, its model cannot have any, or they don't fit.
std::string AdaptersText(const RunConfig& run, const memory::Budget& budget) {
  if (run.lora.asked() || budget.profile.device.empty()) return "";
  RunConfig config = run;
  for (const Knob& knob : Techniques()) knob.Use(config, false);
  config.lora.rank = kLoraRank;
  config.train.SetMicroSteps(1, 1);
  config.checkpointing.policy = config::CheckpointPolicy::kAuto;
  config.memory.weights = config::PlaceOrAuto::kAuto;
  try {
    StepSolver solver(config, {.built_in_rates = true, .coarse = true});
    const memory::Candidate* chosen = solver.solver().Fastest(budget);
    if (chosen == nullptr) return "";
    const memory::ExactPlan& exact = *chosen->exact;
    return fmt::format("adapters take {} with --lora {}",
                       BytesText(budget.profile.ProcessBytes(exact.arena_bytes),
                                 exact.host_arena_bytes, /*gpu=*/true),
                       kLoraRank);
  } catch (const UserError&) {
    return "";
  }
}

// Sentences about the solver's candidate, by built-in rates: "Takes 13.6 GiB of the GPU and 110 GiB
// of the host, pinned."; "By built-in rates a step of 2097152 tokens takes about 11 min, 2.97k
// tokens/s."; "The rates are of an NVIDIA H200." If a step is long, adds a smaller batch with its
// time; if tensors are on the host, adds the memory of training adapters.
std::vector<std::string> Outlook(StepSolver& solver, const memory::Candidate& candidate,
                                 const memory::Budget& budget) {
  const memory::ExactPlan& exact = *candidate.exact;
  const bool gpu = !budget.profile.device.empty();
  const std::string of = solver.cost().rates().Origin();
  std::vector<std::string> lines = {
      fmt::format("Takes {}.", BytesText(budget.profile.ProcessBytes(exact.taken_bytes),
                                         exact.host_arena_bytes, gpu)),
      fmt::format("By built-in rates {}.", StepText(solver.OptionsOf(candidate), exact.seconds)),
      of.empty() ? "" : fmt::format("The rates are {}.", of)};
  if (gpu) lines.push_back(SmallerBatch(solver, candidate));
  if (gpu && exact.host_arena_bytes > 0) {
    std::string adapters = AdaptersText(solver.ConfigOf(candidate), budget);
    if (!adapters.empty()) lines.push_back("Next to frozen weights " + adapters + ".");
  }
  std::erase(lines, "");
  return lines;
}

// The configuration with the choices made so far; all other choices stay open for the solver.
RunConfig OpenConfig(const Target& target, Choices choices) {
  if (!choices.IsAsked("train.accumulate") && !choices.Has("train.micro_batch")) {
    choices.Set("train.micro_batch", "auto");
  }
  choices.Set("checkpointing.policy", "auto");
  choices.Set("memory.calibrate", "false");
  RunConfig config = LoadRunText(choices.Text(), "config --for").config;
  config.planned_gpu = target.key;
  config.origins["memory.budget"] = "config --for";  // shown in messages
  return config;
}

// Opens placement, and all other choices that do not affect results, for the solver.
void LeaveOpen(Choices& choices) {
  for (const Knob& knob : Techniques()) {
    if (!choices.Keeps(knob.key)) choices.Set(knob.key, "auto");
  }
}

void WriteMicroBatch(const RunConfig& open, const RunConfig& made, Choices& choices) {
  if (open.train.micro_batch != 0) return;
  choices.Set("train.micro_batch", std::to_string(made.train.micro_batch),
              fmt::format("{} at a time, {}: by built-in rates the fastest way to "
                          "cut that batch within the budget.",
                          Counted(made.train.micro_batch,
                                  made.model.sequence() == 1 ? "sample" : "sequence"),
                          Counted(made.train.accumulate, "micro-step")));
}

void WriteTechniques(const RunConfig& open, const RunConfig& made, Choices& choices) {
  for (const Knob& knob : Techniques()) {
    if (!knob.IsOpen(open)) continue;
    choices.Remove(knob.key);
    if (!knob.IsUsed(made)) continue;
    choices.Set(
        knob.key, knob.used(),
        "No plan fits with everything on the GPU, and none with the optimizer's state alone "
        "on the host; by built-in rates this is part of the fastest one. No number "
        "changes.");
  }
}

void WritePolicy(StepSolver& solver, const memory::Candidate& chosen, Choices& choices) {
  if (chosen.fates == solver.solver().variant(chosen.variant).KeepAll()) {
    choices.Set("checkpointing.policy", "none", "All activations fit: nothing is recomputed.");
    return;
  }
  choices.Set("checkpointing.policy", "auto",
              fmt::format("Not all activations fit. The solver recomputes what costs least time, "
                          "once it has timed the device; by built-in rates {:.1f} % of a step.",
                          100 * chosen.exact->recompute_seconds / chosen.exact->seconds));
}

// The run with its batch cut into the most micro-steps; this cut needs the least memory.
RunConfig WithSmallestCut(const RunConfig& open) {
  RunConfig config = open;
  if (config.train.micro_batch != 0) return config;
  const int64_t tokens = config.train.global_batch_tokens.value_or(0);
  const int64_t samples = config.train.global_batch.value_or(tokens / config.model.sequence());
  const int64_t each = ModelFrom(config)->sample_coupling().smallest_micro_batch();
  config.train.SetMicroSteps(each, std::max<int64_t>(1, samples / each));
  return config;
}

// Refuses a run that is far from fitting, without searching for changes. A run is far from fitting
// if one sequence takes twice the budget with the smallest named policy and everything possible on
// the host.
void RequireNearBudget(const RunConfig& open, const memory::Budget& budget) {
  RunConfig config = open;
  // Uses two micro-steps, because the gradients of a single micro-step would stay on the device.
  config.train.SetMicroSteps(ModelFrom(config)->sample_coupling().smallest_micro_batch(), 2);
  for (const Knob& knob : Techniques()) {
    if (knob.IsOpen(config)) knob.Use(config, WhyUnused(knob, config).empty());
  }
  StepSolver policies(config, {.built_in_rates = true, .policies = true});
  const int64_t twice = budget.profile.ArenaWithin(2 * budget.process());
  if (policies.solver().Fastest({.device = twice, .profile = budget.profile}) != nullptr) return;
  StepSolver solver(WithSmallestCut(open), {.built_in_rates = true});
  const int64_t needed = SmallestOf(solver, LimitsOf(budget)).needs.process;
  throw UserError(
      fmt::format("config --for: memory.budget: {} ({} bytes); the smallest plan needs {} ({} "
                  "bytes); raise the budget, make the model smaller, or have ranks share it "
                  "(parallel.tensor, parallel.zero: 3)",
                  FormatBytes(budget.process()), budget.process(), FormatBytes(needed), needed),
      ExitCode::kBudgetNotMet);
}

// Refuses the run; the message also names the present micro-batch and smaller micro-batches.
[[noreturn]] void Refuse(const memory::Budget& budget, StepSolver& solver) {
  try {
    RefuseBudget(budget, solver);
  } catch (const UserError& error) {
    const RunConfig& config = solver.config();
    std::string more;
    if (const int64_t sequence = config.model.sequence(); sequence > 1) {
      more += fmt::format("; a sequence has {} (model.sequence)", Counted(sequence, "token"));
    }
    const std::string adapters = AdaptersText(config, budget);
    if (!adapters.empty()) more += "; " + adapters;
    throw UserError(error.what() + more, error.code());
  }
}

}  // namespace

std::vector<std::string> ChooseWithinBudget(const Target& target, Choices& choices) {
  const Activity activity("looking for the fastest plan within the budget");
  RunConfig config = OpenConfig(target, choices);
  const memory::Budget budget = BudgetOf(config);
  constexpr StepSolverOptions kBuiltIn = {.built_in_rates = true};
  std::unique_ptr<StepSolver> solver;
  const auto fastest = [&]() -> const memory::Candidate* {
    config = OpenConfig(target, choices);
    solver.reset();
    if (!HasRoomForState(config, budget)) return nullptr;
    solver = std::make_unique<StepSolver>(config, kBuiltIn);
    return solver->solver().Fastest(budget);
  };
  const memory::Candidate* chosen = fastest();
  if (chosen == nullptr && target.gpu && config.optimizer.place == config::PlaceOrAuto::kDevice) {
    choices.Set("optimizer.place", "host",
                "No plan fits otherwise: moments and master weights stay in host memory, and come "
                "to the GPU for each update. No number changes.");
    chosen = fastest();
  }
  if (chosen == nullptr && target.gpu) {
    LeaveOpen(choices);
    RequireNearBudget(OpenConfig(target, choices), budget);
    chosen = fastest();
  }
  if (chosen == nullptr) {
    RequireRoomForParameters(config, budget);
    StepSolver least(WithSmallestCut(config), kBuiltIn);
    Refuse(budget, least);
  }
  const RunConfig made = solver->ConfigOf(*chosen);
  WriteMicroBatch(config, made, choices);
  WriteTechniques(config, made, choices);
  WritePolicy(*solver, *chosen, choices);
  return Outlook(*solver, *chosen, budget);
}

}  // namespace plimsoll::trainer
