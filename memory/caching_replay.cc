#include "memory/caching_replay.h"

#include <algorithm>
#include <utility>

#include "base/function_ref.h"
#include "memory/lifetimes.h"

namespace plimsoll::memory {
namespace {

constexpr int kMostPeriods = 12;

// Plays until a repetition reserves no segment: the rest would change nothing.
void Repeat(int64_t times, const runtime::CachingMemory& memory, FunctionRef<void()> play) {
  auto reserved = [&] {
    return memory.stats().segments_reserved + memory.host_stats().segments_reserved;
  };
  for (int64_t i = 0; i < times; ++i) {
    const int64_t before = reserved();
    play();
    if (reserved() == before) return;
  }
}

void Run(const graph::Program& program, runtime::TensorMemory& tensors) {
  for (int node = 0; node < static_cast<int>(program.nodes().size()); ++node) {
    tensors.BeforeNode(node);
    tensors.AfterNode(node);
  }
}

}  // namespace

runtime::AllocationSchedule MakeAllocationSchedule(const graph::Program& program, bool in_place) {
  const Lifetimes lifetimes = ComputeLifetimes(program, in_place);
  runtime::AllocationSchedule schedule;
  schedule.buffer_of = lifetimes.buffer_of;
  schedule.born.resize(program.nodes().size());
  schedule.dying.resize(program.nodes().size());
  for (size_t i = 0; i < lifetimes.buffers.size(); ++i) {
    const Buffer& buffer = lifetimes.buffers[i];
    const int32_t index = static_cast<int32_t>(i);
    schedule.buffers.push_back({buffer.bytes, buffer.place});
    const bool held =
        std::any_of(buffer.tensors.begin(), buffer.tensors.end(), [&](graph::TensorId id) {
          const graph::Role role = program.tensor(id).role;
          return role == graph::Role::kInput || role == graph::Role::kMetric;
        });
    if (held) {
      schedule.held.push_back(index);
    } else {
      schedule.born[buffer.birth].push_back(index);
      schedule.dying[buffer.death].push_back(index);
    }
  }
  return schedule;
}

std::vector<runtime::TensorMemory*> FillCachingMemory(
    std::span<const graph::Program* const> programs, const MemoryPlan& plan, bool in_place,
    runtime::CachingMemory& memory) {
  for (const PersistentTensor& tensor : plan.persistent) {
    memory.AddPersistent(tensor.name, tensor.type.bytes(), tensor.place);
  }
  std::vector<runtime::TensorMemory*> memories;
  for (size_t p = 0; p < programs.size(); ++p) {
    runtime::AllocationSchedule schedule = MakeAllocationSchedule(*programs[p], in_place);
    schedule.position = plan.programs[p].layout.position;
    memories.push_back(&memory.AddProgram(*programs[p], std::move(schedule)));
  }
  return memories;
}

ReplayResult ReplayCaching(std::span<const graph::Program* const> programs, const MemoryPlan& plan,
                           std::span<const ProgramRuns> round, const CachingOptions& options) {
  runtime::CachingMemory memory(std::make_unique<runtime::SimulatedSegments>(),
                                std::make_unique<runtime::SimulatedSegments>(),
                                {.preallocate_bytes = options.preallocate_bytes});
  const std::vector<runtime::TensorMemory*> memories =
      FillCachingMemory(programs, plan, options.in_place, memory);
  ReplayResult result;
  // A period is the rounds between two clearings of the cache. It is steady when it reserved as
  // many segments as the one before and the peak is the same.
  const int64_t period = std::max<int64_t>(1, options.empty_cache_every);
  int64_t last_peak = -1, last_segments = -1;
  for (int p = 0; p < kMostPeriods && !result.steady; ++p) {
    const int64_t before = memory.stats().segments_reserved;
    Repeat(period, memory, [&] {
      for (const ProgramRuns& runs : round) {
        Repeat(runs.times, memory, [&] { Run(*programs[runs.program], *memories[runs.program]); });
      }
    });
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
