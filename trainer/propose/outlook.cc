#include "trainer/propose/outlook.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "trainer/settle/knobs.h"
#include "trainer/settle/run_costs.h"
#include "trainer/step/step_speed.h"

namespace plimsoll::trainer {
namespace {

using config::RunConfig;

// Of a step: a batch is proposed that takes no longer, where the model's own takes twice as long.
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

// The largest batch of a power of two of micro-steps whose step is not long; empty: the batch is
// one that takes no time, or a single micro-step.
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

}  // namespace

std::vector<std::string> Outlook(StepSolver& solver, const memory::Candidate& candidate,
                                 const memory::Budget& budget) {
  const memory::ExactPlan& exact = *candidate.exact;
  const bool gpu = !budget.profile.device.empty();
  std::vector<std::string> lines = {
      fmt::format("Takes {}.", BytesText(budget.profile.ProcessBytes(exact.taken_bytes),
                                         exact.host_arena_bytes, gpu)),
      fmt::format("By built-in rates {}.", StepText(solver.OptionsOf(candidate), exact.seconds))};
  if (gpu) lines.push_back(SmallerBatch(solver, candidate));
  if (gpu && exact.host_arena_bytes > 0) {
    std::string adapters = AdaptersText(solver.ConfigOf(candidate), budget);
    if (!adapters.empty()) lines.push_back("Beside frozen weights " + adapters + ".");
  }
  std::erase(lines, "");
  return lines;
}

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

}  // namespace plimsoll::trainer
