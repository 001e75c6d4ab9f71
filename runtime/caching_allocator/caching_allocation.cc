#include "runtime/caching_allocator/caching_allocation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/function_ref.h"
#include "runtime/caching_allocator/simulated_segments.h"

namespace plimsoll::runtime {
namespace {

constexpr int kMostPeriods = 12;

// Replays until a repetition reserves no segment: further repetitions would change nothing.
void Repeat(int64_t times, const CachingMemory& memory, FunctionRef<void()> play) {
  const auto reserved = [&] {
    return memory.stats().segments_reserved + memory.host_stats().segments_reserved;
  };
  for (int64_t i = 0; i < times; ++i) {
    const int64_t before = reserved();
    play();
    if (reserved() == before) return;
  }
}

// A device's memory, in which tensors are allocated while programs run.
class CachingDeviceMemory : public DeviceMemory {
 public:
  CachingDeviceMemory(const memory::PlannedPrograms& step, Device& device,
                      const CachingOptions& options)
      : DeviceMemory(0, 0),
        step_(step),
        device_(device),
        options_(options),
        transfers_(device.Allocate(0, 0)) {}

  std::vector<std::unique_ptr<Executor>> MakeExecutors(std::span<const BoundProgram> programs,
                                                       const ExecutorOptions& options) override {
    // Kernels choose and load what they need in the plan's arenas, which are freed afterwards.
    device_.Allocate(step_.plan.arena_bytes, step_.plan.host_arena_bytes)
        ->MakeExecutors(programs,
                        {.launch = Launch::kByNode, .communicators = options.communicators});
    memory_.emplace(step_, device_.MakeSegments(graph::Place::kDevice),
                    device_.MakeSegments(graph::Place::kHost), options_, options.poison);
    return MakeExecutorsOn(memory_->programs(), programs, options);
  }
  std::vector<std::unique_ptr<Executor>> MakeExecutorsOn(std::span<TensorMemory* const> memories,
                                                         std::span<const BoundProgram> programs,
                                                         const ExecutorOptions& options) override {
    ExecutorOptions others = options;
    others.poison = false;  // memory_ itself fills freed tensors
    return transfers_->MakeExecutorsOn(memories, programs, others);
  }

  bool planned() const override { return false; }
  AllocatorStats stats(graph::Place place) const override {
    return place == graph::Place::kDevice ? memory_->stats() : memory_->host_stats();
  }
  void BeforeStep(int64_t step) override {
    const int64_t every = options_.empty_cache_every;
    if (every > 0 && step > 0 && step % every == 0) memory_->EmptyCache();
  }

  void Write(std::span<std::byte> to, const void* from) override { transfers_->Write(to, from); }
  void Read(std::span<const std::byte> from, void* to) override { transfers_->Read(from, to); }
  std::unique_ptr<Readback> MakeReadback(std::vector<std::span<const std::byte>> ranges) override {
    return transfers_->MakeReadback(std::move(ranges));
  }
  double copy_seconds() const override { return transfers_->copy_seconds(); }
  std::byte* Address(const MemoryRange& range) override { return transfers_->Address(range); }

 private:
  const memory::PlannedPrograms step_;
  Device& device_;
  const CachingOptions options_;
  std::optional<CachingMemory> memory_;
  // Its destructor waits for all work before memory_ is freed.
  std::unique_ptr<DeviceMemory> transfers_;
};

}  // namespace

memory::Allocation CachingAllocation(const CachingOptions& options) {
  const auto allocate = [options](const memory::PlannedPrograms& step, Device& device) {
    const ReplayResult replay = Replay(step, options);
    const bool cpu = device.kind() == DeviceKind::kCpu;
    memory::CheckAvailable((cpu ? replay.device.peak_reserved : 0) + replay.host.peak_reserved,
                           "memory.allocator: caching");
    return std::make_unique<CachingDeviceMemory>(step, device, options);
  };
  return {.allocate = allocate, .planned = false};
}

ReplayResult Replay(const memory::PlannedPrograms& step, const CachingOptions& options) {
  CachingMemory memory(step, std::make_unique<SimulatedSegments>(),
                       std::make_unique<SimulatedSegments>(), options);
  const auto run = [&](int program) {
    TensorMemory& tensors = *memory.programs()[program];
    for (int node = 0; node < static_cast<int>(step.programs[program]->nodes().size()); ++node) {
      tensors.BeforeNode(node);
      tensors.AfterNode(node);
    }
  };
  ReplayResult result;
  // A period is the rounds between two calls of EmptyCache(). A period is steady if it reserves as
  // many segments as the previous period, with the same peak.
  const int64_t period = std::max<int64_t>(1, options.empty_cache_every);
  int64_t last_peak = -1, last_segments = -1;
  for (int p = 0; p < kMostPeriods && !result.steady; ++p) {
    const int64_t before = memory.stats().segments_reserved;
    Repeat(period, memory, [&] {
      for (const memory::ProgramRuns& runs : step.round) {
        Repeat(runs.times, memory, [&] { run(runs.program); });
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

}  // namespace plimsoll::runtime
