#include "trainer/plan/verdict.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/columns.h"
#include "trainer/settle/gpu_profile.h"
#include "trainer/settle/run_budget.h"
#include "trainer/settle/run_costs.h"
#include "trainer/settle/run_device.h"
#include "trainer/step/step_speed.h"

namespace plimsoll::trainer {
namespace {

std::string FitText(const config::RunConfig& config, const memory::MemoryPlan& plan) {
  const memory::DeviceProfile profile = ProfileFrom(config);
  const MemoryLine line = MemoryLineOf(config);
  const int64_t process = profile.ProcessBytes(ArenaBytes(config, plan));
  const bool gpu = !profile.device.empty();
  std::string text =
      line.Admits(process)
          ? fmt::format("fits {}: takes {}{}, {} to spare", line.Text(), FormatBytes(process),
                        gpu ? " of " + profile.device : "", FormatBytes(line.bytes - process))
          : fmt::format("does not fit {}: takes {}, {} too much", line.Text(), FormatBytes(process),
                        FormatBytes(process - line.bytes));
  if (gpu && plan.host_arena_bytes > 0) {
    text += fmt::format("; and {} of the host, pinned", FormatBytes(plan.host_arena_bytes));
  }
  if (!line.Admits(process)) text += "; with --budget 90% a plan that fits is looked for";
  return text;
}

std::string StepText(const config::RunConfig& config, const CompileOptions& options,
                     const memory::CostModel& cost, double seconds) {
  return fmt::format("predicted step: {} ({})", SpeedText(options, seconds),
                     RatesText(config, cost));
}

}  // namespace

std::string MemoryLine::Text() const { return fmt::format("{} ({})", whose, FormatBytes(bytes)); }

MemoryLine MemoryLineOf(const config::RunConfig& config) {
  const memory::DeviceProfile profile = ProfileFrom(config);
  if (config.memory.budget) {
    const bool proposed = !profile.device.empty() && !config.IsSet("memory.budget");
    return {
        proposed ? fmt::format("{:.0f} % of {}", 100 * kGpuShare, profile.device) : "memory.budget",
        BytesOf(*config.memory.budget, config, "memory.budget")};
  }
  if (!profile.device.empty()) return {profile.device, profile.memory_bytes};
  const config::MemorySize all = {.base = config::MemorySize::Base::kTotal, .fraction = 1};
  return {"this machine", BytesOf(all, config, "memory.budget")};
}

std::string Verdict(const config::RunConfig& config, const CompiledStep& compiled,
                    const memory::CostModel& cost, double seconds, const std::string& chosen) {
  std::string text =
      Wrapped(FitText(config, compiled.plan), kLineColumns, "  ") + "\n" +
      Wrapped(StepText(config, compiled.options, cost, seconds), kLineColumns, "  ") + "\n";
  if (!chosen.empty()) text += Wrapped("chosen: " + chosen, kLineColumns, "  ") + "\n";
  return text;
}

}  // namespace plimsoll::trainer
