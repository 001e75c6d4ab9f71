#include "trainer/settle/run_costs.h"

#include <fmt/format.h>

#include "base/axes.h"
#include "base/message.h"
#include "base/thread_pool.h"
#include "trainer/settle/activity.h"
#include "trainer/settle/calibration.h"
#include "trainer/settle/link_rates.h"
#include "trainer/settle/run_budget.h"
#include "trainer/settle/run_device.h"
#include "trainer/step/stage_schedule.h"

namespace plimsoll::trainer {

using config::RunConfig;
using graph::Program;

memory::CostModel BuiltInCost(const RunConfig& config) {
  memory::CostModel cost(DeviceFrom(config) == runtime::DeviceKind::kCuda
                             ? memory::DeviceRates::Gpu(GpuFrom(config))
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
    memory::CostModel cost = CalibrateGpu(programs, budget.profile.device, options);
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
  const int64_t stages = compiled.options.mesh.ranks(kPipelineAxis);
  return total / (1 - BubbleOf(stages, compiled.options.accumulate));
}

}  // namespace plimsoll::trainer
