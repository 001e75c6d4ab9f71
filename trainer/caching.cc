#include "trainer/caching.h"

#include "trainer/from_config.h"
#include "trainer/solve.h"

namespace plimsoll::trainer {

std::optional<CachingOptions> CachingFrom(const config::RunConfig& config) {
  if (config.memory.allocator != config::Allocator::kCaching) return std::nullopt;
  if (DeviceFrom(config) != runtime::DeviceKind::kCpu) {
    throw config.Error("memory.allocator",
                       "caching is there to compare with on the CPU; set device: cpu, or "
                       "memory.allocator: planned");
  }
  if (config.debug.check_arena) {
    throw config.Error("debug.check_arena",
                       "measures the planned arena, which memory.allocator: caching has not; "
                       "leave one of them out");
  }
  if (config.debug.find_nan) {
    throw config.Error("debug.find_nan",
                       "looks at the planned arena, which memory.allocator: caching has not; leave "
                       "one of them out");
  }
  CachingOptions options;
  options.empty_cache_every = config.memory.empty_cache_every;
  if (config.memory.preallocate) {
    if (!config.memory.budget) {
      throw config.Error("memory.preallocate",
                         "takes memory.budget at once; give a budget, or let the cache grow");
    }
    options.preallocate_bytes = BytesOf(*config.memory.budget, config, "memory.budget");
  }
  return options;
}

std::vector<memory::ProgramRuns> Round(const CompiledStep& compiled) {
  const StepPrograms& step = compiled.step;
  std::vector<memory::ProgramRuns> round;
  if (compiled.options.train) round = step.MicroSteps(compiled.options.accumulate);
  for (int program : {step.evaluation, step.prefill, step.decode, step.logits}) {
    if (program >= 0) round.push_back({program});
  }
  return round;
}

std::vector<const graph::Program*> Programs(const CompiledStep& compiled) {
  std::vector<const graph::Program*> programs;
  for (const auto& program : compiled.programs) programs.push_back(program.get());
  return programs;
}

memory::ReplayResult Replay(const CompiledStep& compiled, const CachingOptions& options) {
  return memory::ReplayCaching(Programs(compiled), compiled.plan, Round(compiled),
                               {.in_place = options.in_place,
                                .preallocate_bytes = options.preallocate_bytes,
                                .empty_cache_every = options.empty_cache_every});
}

}  // namespace plimsoll::trainer
