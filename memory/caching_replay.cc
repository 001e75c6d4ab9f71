#include "memory/caching_replay.h"

#include <algorithm>

#include "base/function_ref.h"
#include "memory/allocation_events.h"

namespace plimsoll::memory {

void FillCachingMemory(std::span<const graph::Program* const> programs, const MemoryPlan& plan,
                       bool in_place, runtime::CachingMemory& memory,
                       std::vector<runtime::TensorMemory*>& memories) {
  for (const PersistentTensor& tensor : plan.persistent) {
    memory.AddPersistent(tensor.name, tensor.type.bytes(), tensor.place);
  }
  for (size_t p = 0; p < programs.size(); ++p) {
    runtime::AllocationSchedule schedule = MakeAllocationSchedule(*programs[p], in_place);
    schedule.position = plan.programs[p].layout.position;
    memories.push_back(&memory.AddProgram(*programs[p], std::move(schedule)));
  }
}

namespace {

// Plays events on both allocators; repetitions that would change nothing are only counted.
class Player {
 public:
  Player(std::span<const graph::Program* const> programs, runtime::CachingMemory& memory,
         std::span<runtime::TensorMemory* const> memories)
      : programs_(programs), memory_(memory), memories_(memories) {}

  void Play(std::span<const ProgramRuns> round, int64_t rounds) {
    Repeat(rounds, [&] {
      for (const ProgramRuns& runs : round) {
        Repeat(runs.times, [&] { Run(runs.program); });
      }
    });
  }

  runtime::CachingStats device() const { return With(memory_.stats(), skipped_device_); }
  runtime::CachingStats host() const { return With(memory_.host_stats(), skipped_host_); }

 private:
  void Run(int program) {
    const int nodes = static_cast<int>(programs_[program]->nodes().size());
    for (int node = 0; node < nodes; ++node) {
      memories_[program]->BeforeNode(node);
      memories_[program]->AfterNode(node);
    }
  }

  // Plays until a repetition reserves no segment, and counts the rest.
  void Repeat(int64_t times, FunctionRef<void()> play) {
    for (int64_t i = 0; i < times; ++i) {
      const runtime::CachingStats device_before = device(), host_before = host();
      play();
      const runtime::CachingStats device_after = device(), host_after = host();
      if (device_after.segments_reserved != device_before.segments_reserved ||
          host_after.segments_reserved != host_before.segments_reserved) {
        continue;
      }
      const int64_t left = times - i - 1;
      skipped_device_ += left * (device_after.allocations - device_before.allocations);
      skipped_host_ += left * (host_after.allocations - host_before.allocations);
      return;
    }
  }

  static runtime::CachingStats With(runtime::CachingStats stats, int64_t skipped) {
    stats.allocations += skipped;
    return stats;
  }

  std::span<const graph::Program* const> programs_;
  runtime::CachingMemory& memory_;
  std::span<runtime::TensorMemory* const> memories_;
  int64_t skipped_device_ = 0, skipped_host_ = 0;  // allocations
};

}  // namespace

ReplayResult ReplayCaching(std::span<const graph::Program* const> programs, const MemoryPlan& plan,
                           std::span<const ProgramRuns> round, const ReplayOptions& options) {
  runtime::CachingMemory memory(
      {.preallocate_bytes = options.preallocate_bytes, .simulated = true});
  std::vector<runtime::TensorMemory*> memories;
  FillCachingMemory(programs, plan, options.in_place, memory, memories);

  Player player(programs, memory, memories);
  ReplayResult result;
  // A period is the rounds between two clearings of the cache. It is steady when it reserved as
  // many segments as the one before and the peak is the same.
  const int64_t period = std::max<int64_t>(1, options.empty_cache_every);
  int64_t last_peak = -1, last_segments = -1;
  for (int p = 0; p < options.max_periods && !result.steady; ++p) {
    const int64_t before = memory.stats().segments_reserved;
    player.Play(round, period);
    result.rounds += period;
    const int64_t peak = memory.stats().peak_reserved + memory.host_stats().peak_reserved;
    const int64_t segments = memory.stats().segments_reserved - before;
    result.steady = peak == last_peak && segments == last_segments;
    last_peak = peak;
    last_segments = segments;
    if (options.empty_cache_every > 0) memory.EmptyCache();
  }
  result.device = player.device();
  result.host = player.host();
  return result;
}

}  // namespace plimsoll::memory
