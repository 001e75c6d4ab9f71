#include "trainer/resolve/run_budget.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "memory/device_profile.h"
#include "runtime/caching_allocator/caching_allocation.h"
#include "runtime/cuda/gpu_memory.h"
#include "runtime/process_memory.h"
#include "trainer/resolve/gpu_profile.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/known_gpus.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {
namespace {

using config::MemorySize;
using config::RunConfig;

struct MemoryHere {
  int64_t total = 0;
  int64_t free = 0;
  const char* whose = "";
};

// The memory that a key is about: the GPU's, or the machine's.
MemoryHere MemoryOf(const RunConfig& config, const std::string& key) {
  if (key != "memory.budget" || DeviceFrom(config) == runtime::DeviceKind::kCpu) {
    const int64_t total = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
    return {total, runtime::AvailableMemory(), ""};
  }
  if (!config.planned_gpu.empty()) {
    const KnownGpu& gpu = RequireGpu(config.planned_gpu);
    return {gpu.memory_bytes(), gpu.memory_bytes(), " on the GPU"};
  }
  const std::optional<runtime::GpuMeter> meter = runtime::GpuMeter::Find();
  if (!meter) {
    throw config.Error(key,
                       "is relative to a GPU's memory, and there is no GPU here; give it in "
                       "bytes, as in 24GiB");
  }
  // The memory that this process already holds is available to it.
  const runtime::GpuMemory memory = meter->Measure();
  return {memory.total, memory.free + meter->MeasureProcess().bytes, " on the GPU"};
}

}  // namespace

int64_t BytesOf(const MemorySize& size, const RunConfig& config, const std::string& key) {
  if (size.base == MemorySize::Base::kAbsolute) return size.bytes;
  const MemoryHere here = MemoryOf(config, key);
  if (size.base == MemorySize::Base::kTotal) {
    return static_cast<int64_t>(size.fraction * static_cast<double>(here.total));
  }
  if (here.free > size.bytes) return here.free - size.bytes;
  throw UserError(
      config.Origin(key) + ": " + key +
          fmt::format(": only {} are free{}, which leaves nothing after {}; subtract less",
                      FormatBytes(here.free), here.whose, FormatBytes(size.bytes)),
      ExitCode::kBudgetNotMet);
}

int64_t BudgetLine(const RunConfig& config) {
  const int64_t line = BytesOf(*config.memory.budget, config, "memory.budget");
  if (DeviceFrom(config) == runtime::DeviceKind::kCpu) return line;
  const std::optional<Card> card = CardFrom(config);
  return card ? std::min(line, card->memory_bytes) : line;
}

memory::Budget BudgetOf(const RunConfig& config) {
  memory::Budget budget;
  budget.profile = ProfileFrom(config);
  if (config.memory.budget) {
    const int64_t line = BudgetLine(config);
    budget.device = budget.profile.ArenaWithin(line);
    if (budget.device < 0) {
      throw UserError(
          fmt::format("{}: memory.budget: {} is less than the {} that the process takes of the GPU "
                      "outside the arena ({}); raise it",
                      config.Origin("memory.budget"), FormatBytes(line),
                      FormatBytes(budget.profile.overhead_bytes()),
                      memory::PartsText(budget.profile)),
          ExitCode::kBudgetNotMet);
    }
  }
  if (config.memory.host_budget) {
    budget.host = BytesOf(*config.memory.host_budget, config, "memory.host_budget");
  }
  return budget;
}

std::optional<int64_t> ArenaBudget(const RunConfig& config, const memory::MemoryPlan& plan) {
  if (!config.memory.budget) return std::nullopt;
  return BudgetOf(config).device - (ArenaBytes(config, plan) - plan.arena_bytes);
}

memory::Allocation AllocationFrom(const config::RunConfig& config, int64_t ranks) {
  if (config.memory.allocator == config::Allocator::kPlanned) return {};
  if (ranks > 1 && DeviceFrom(config) != runtime::DeviceKind::kCpu) {
    throw config.Error("memory.allocator",
                       "caching is there to compare with on one GPU; start one rank, or set "
                       "memory.allocator: planned");
  }
  const auto refuse = [&](bool set, const char* key, const char* does) {
    if (!set) return;
    throw config.Error(key, fmt::format("{} the planned arena, which memory.allocator: caching has "
                                        "not; leave one of them out",
                                        does));
  };
  refuse(config.debug.check_arena, "debug.check_arena", "measures");
  refuse(config.debug.find_nan, "debug.find_nan", "looks at");
  runtime::CachingOptions options;
  options.empty_cache_every = config.memory.empty_cache_every;
  if (config.memory.preallocate) {
    if (!config.memory.budget) {
      throw config.Error("memory.preallocate",
                         "takes memory.budget at once; give a budget, or let the cache grow");
    }
    options.preallocate_bytes = BudgetOf(config).device;
  }
  return runtime::CachingAllocation(options);
}

void RequireBudget(const RunConfig& config) {
  if (config.memory.budget || !LeavesChoice(config)) return;
  throw config.Error(FirstOpen(config),
                     "auto chooses what is fastest within memory.budget, which is not set; set it, "
                     "for example to 90%");
}

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
