#include "trainer/resolve/run_costs.h"

#include <fmt/format.h>

#include <iterator>

#include "base/axes.h"
#include "base/message.h"
#include "base/thread_pool.h"
#include "trainer/resolve/activity.h"
#include "trainer/resolve/calibration.h"
#include "trainer/resolve/link_rates.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {

using config::RunConfig;
using graph::Program;

memory::CostModel BuiltInCost(const RunConfig& config) {
  memory::CostModel cost(DeviceFrom(config) == runtime::DeviceKind::kCuda
                             ? memory::DeviceRates::Gpu(GpuFrom(config), CapabilityFrom(config))
                             : memory::DeviceRates::Cpu(ThreadsFrom(config)));
  cost.SetMesh(MeshFrom(config));
  return cost;
}

std::string RatesText(const RunConfig& config, const memory::CostModel& cost) {
  if (cost.measured()) {
    const std::string when = cost.when().empty() ? "" : " " + cost.when();
    return (config.memory.calibration.empty() ? "by rates measured here"
                                              : "by rates of memory.calibration, measured") +
           when;
  }
  const std::string origin = cost.rates().Origin();
  const bool refused = !config.memory.calibrate && config.planned_gpu.empty();
  return fmt::format("by built-in rates{}{}{}", origin.empty() ? "" : " ", origin,
                     refused ? ", memory.calibrate being false" : "");
}

memory::CostModel CostModelFor(const RunConfig& config, std::span<const Program* const> programs) {
  if (!config.memory.calibrate || !config.planned_gpu.empty()) return BuiltInCost(config);
  const Activity activity("timing ops on this device, once");
  CalibrationOptions options;
  options.fixed = !config.memory.calibration.empty();
  options.folder = CalibrationFolder(config);
  options.say = [](const std::string& text) { PrintNote(text + "\n"); };
  const memory::Budget budget = BudgetOf(config);
  if (budget.device != memory::Budget::kNone) options.scratch_bytes = budget.device;
  if (DeviceFrom(config) == runtime::DeviceKind::kCuda) {
    ActAsAsked(config);
    memory::CostModel cost =
        CalibrateGpu(programs, budget.profile.device, CapabilityFrom(config), options);
    if (const auto link = KnownLink(config)) cost.SetLink(*link);
    cost.SetMesh(MeshFrom(config));
    return cost;
  }
  ThreadPool pool(ThreadsFrom(config));
  return Calibrate(programs, pool, options);
}

double PredictSeconds(const CompiledStep& compiled, const memory::CostModel& cost) {
  double total = 0;
  for (const StepEntry& entry : compiled.step.entries) {
    total +=
        static_cast<double>(entry.times) * cost.ProgramSeconds(*compiled.programs[entry.program]);
  }
  return total;
}

std::vector<CompiledStep> CompileOtherStages(const models::Model& model,
                                             const CompiledStep& first) {
  const Mesh& mesh = first.options.mesh;
  std::vector<CompiledStep> others;
  for (int64_t stage = 1; stage < mesh.ranks(kPipelineAxis); ++stage) {
    CompileOptions options = first.options;
    options.rank = mesh.RankAt({{kPipelineAxis, stage}});
    options.dump_directory.clear();  // the first stage dumps its programs
    others.push_back(Compile(model, options));
  }
  return others;
}

StageSeconds StageSecondsOf(const CompiledStep& compiled, const memory::CostModel& cost) {
  StageSeconds seconds;
  double forwards = 0, backwards = 0;
  for (const StepEntry& entry : compiled.step.entries) {
    const double run = cost.ProgramSeconds(*compiled.programs[static_cast<size_t>(entry.program)]);
    if (entry.action == StepAction::kForward) {
      seconds.forward += run;
      ++forwards;
    } else if (entry.action == StepAction::kUpdate) {
      seconds.update += run;
    } else {
      seconds.backward += run;
      ++backwards;
    }
  }
  if (forwards > 0) seconds.forward /= forwards;
  if (backwards > 0) seconds.backward /= backwards;
  return seconds;
}

StepTimeline PredictStages(std::span<const StageSeconds> stages, int64_t micro_batches) {
  std::vector<StageList> lists;
  const int64_t count = std::ssize(stages);
  for (int64_t stage = 0; stage < count; ++stage) {
    lists.push_back(OneForwardOneBackward(count, stage, micro_batches));
  }
  return TimelineOf(lists, stages);
}

double PredictSeconds(const CompiledStep& first, std::span<const CompiledStep> others,
                      const memory::CostModel& cost) {
  if (others.empty()) return PredictSeconds(first, cost);
  std::vector<StageSeconds> stages = {StageSecondsOf(first, cost)};
  for (const CompiledStep& other : others) stages.push_back(StageSecondsOf(other, cost));
  return PredictStages(stages, first.options.accumulate).seconds;
}

}  // namespace plimsoll::trainer
