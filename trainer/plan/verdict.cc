#include "trainer/plan/verdict.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/columns.h"
#include "trainer/settle/gpu_profile.h"
#include "trainer/settle/memory_line.h"
#include "trainer/settle/run_costs.h"
#include "trainer/settle/run_device.h"
#include "trainer/step/step_speed.h"

namespace plimsoll::trainer {
namespace {

std::string FitText(const config::RunConfig& config, const memory::MemoryPlan& plan,
                    const std::string& way_out) {
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
  if (!way_out.empty()) text += "; " + way_out;
  return text;
}

std::string StepText(const config::RunConfig& config, const CompileOptions& options,
                     const memory::CostModel& cost, double seconds) {
  return fmt::format("predicted step: {} ({})", SpeedText(options, seconds),
                     RatesText(config, cost));
}

}  // namespace

bool Fits(const config::RunConfig& config, const memory::MemoryPlan& plan) {
  return MemoryLineOf(config).Admits(ProfileFrom(config).ProcessBytes(ArenaBytes(config, plan)));
}

std::string Verdict(const config::RunConfig& config, const CompiledStep& compiled,
                    const memory::CostModel& cost, double seconds, const std::string& chosen,
                    const std::string& way_out) {
  std::string text =
      Wrapped(FitText(config, compiled.plan, way_out), kLineColumns, "  ") + "\n" +
      Wrapped(StepText(config, compiled.options, cost, seconds), kLineColumns, "  ") + "\n";
  if (!chosen.empty()) text += Wrapped("chosen: " + chosen, kLineColumns, "  ") + "\n";
  return text;
}

}  // namespace plimsoll::trainer
