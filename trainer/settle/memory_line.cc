#include "trainer/settle/memory_line.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "memory/device_profile.h"
#include "trainer/settle/gpu_profile.h"
#include "trainer/settle/run_budget.h"

namespace plimsoll::trainer {

std::string MemoryLine::Text() const {
  return fmt::format("{} ({}){}", whose, FormatBytes(bytes), beside);
}

MemoryLine MemoryLineOf(const config::RunConfig& config) {
  const memory::DeviceProfile profile = ProfileFrom(config);
  const bool gpu = !profile.device.empty();
  const MemoryLine card = {.whose = profile.device, .bytes = profile.memory_bytes, .of_card = true};
  if (!config.memory.budget) {
    if (gpu) return card;
    const config::MemorySize all = {.base = config::MemorySize::Base::kTotal, .fraction = 1};
    return {.whose = "this machine", .bytes = BytesOf(all, config, "memory.budget")};
  }
  const bool proposed = gpu && !config.IsSet("memory.budget");
  MemoryLine budget = {.whose = proposed
                                    ? fmt::format("{:.0f} % of {}", 100 * kGpuShare, profile.device)
                                    : "memory.budget",
                       .bytes = BytesOf(*config.memory.budget, config, "memory.budget")};
  if (BudgetLine(config) == budget.bytes) return budget;
  MemoryLine less = card;
  less.beside = ", less than " + budget.Text();
  return less;
}

}  // namespace plimsoll::trainer
