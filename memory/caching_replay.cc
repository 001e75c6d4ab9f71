#include "memory/caching_replay.h"

#include <algorithm>

#include "memory/allocation_schedule.h"

namespace plimsoll::memory {

void FillCachingMemory(std::span<const graph::Program* const> programs, const MemoryPlan& plan,
                       bool in_place, runtime::CachingMemory& memory,
                       std::vector<runtime::TensorMemory*>& memories) {
  for (const PersistentTensor& tensor : plan.persistent) {
    memory.AddPersistent(tensor.name, tensor.type.bytes(), tensor.place);
  }
  for (size_t p = 0; p < programs.size(); ++p) {
    runtime::AllocationSchedule schedule = MakeAllocationSchedule(*programs[p], in_place);
    schedule.data_rank = plan.programs[p].layout.data_rank;
    memories.push_back(&memory.AddProgram(*programs[p], std::move(schedule)));
  }
}

ReplayResult ReplayCaching(std::span<const graph::Program* const> programs, const MemoryPlan& plan,
                           std::span<const int> round, const ReplayOptions& options) {
  runtime::CachingMemory memory(
      {.preallocate_bytes = options.preallocate_bytes, .simulated = true});
  std::vector<runtime::TensorMemory*> memories;
  FillCachingMemory(programs, plan, options.in_place, memory, memories);

  auto run_round = [&] {
    for (int program : round) {
      const int nodes = static_cast<int>(programs[program]->nodes().size());
      for (int node = 0; node < nodes; ++node) {
        memories[program]->BeforeNode(node);
        memories[program]->AfterNode(node);
      }
    }
  };
  ReplayResult result;
  // A period is as many rounds as lie between two clearings of the cache. It is steady when it
  // reserved as many segments as the one before, and no peak rose.
  const int period = std::max(1, static_cast<int>(options.empty_cache_every));
  int64_t last_peak = -1, last_segments = -1;
  for (int p = 0; p < options.max_periods && !result.steady; ++p) {
    const int64_t before = memory.stats().segments_reserved;
    for (int i = 0; i < period; ++i) run_round();
    result.rounds += period;
    const int64_t peak = memory.stats().peak_reserved + memory.host_stats().peak_reserved;
    const int64_t segments = memory.stats().segments_reserved - before;
    result.steady = peak == last_peak && segments == last_segments;
    last_peak = peak;
    last_segments = segments;
    if (options.empty_cache_every > 0) memory.EmptyCache();
  }
  result.device = memory.stats();
  result.host = memory.host_stats();
  return result;
}

}  // namespace plimsoll::memory
