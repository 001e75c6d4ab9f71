// The CPU as a device: both arenas are ordinary memory, and everything happens at once.
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "runtime/arena.h"
#include "runtime/cpu_executor.h"
#include "runtime/device.h"
#include "runtime/processor.h"

namespace plimsoll::runtime {
namespace {

class CpuMemory : public DeviceMemory {
 public:
  CpuMemory(int64_t arena_bytes, int64_t host_arena_bytes, ThreadPool& pool)
      : DeviceMemory(arena_bytes, host_arena_bytes),
        arena_(arena_bytes),
        host_arena_(host_arena_bytes),
        pool_(pool) {}

  std::vector<std::unique_ptr<Executor>> MakeExecutors(std::span<const BoundProgram> programs,
                                                       const ExecutorOptions& options) override {
    std::vector<std::unique_ptr<Executor>> executors;
    for (const BoundProgram& bound : programs) {
      executors.push_back(std::make_unique<CpuExecutor>(*bound.program, *bound.layout, arena_,
                                                        &host_arena_, pool_, options));
    }
    return executors;
  }

  void Write(const MemoryRange& to, const void* from) override {
    std::memcpy(At(to), from, static_cast<size_t>(to.bytes));
  }

  void Read(const MemoryRange& from, void* to) override {
    std::memcpy(to, At(from), static_cast<size_t>(from.bytes));
  }

  std::unique_ptr<Readback> MakeReadback(std::vector<MemoryRange> ranges) override;

  std::byte* HostAddress(graph::Place place) override {
    return place == graph::Place::kDevice ? arena_.data() : host_arena_.data();
  }

  std::byte* At(const MemoryRange& range) {
    if (range.offset < 0 || range.bytes < 0 || range.offset > bytes(range.place) - range.bytes) {
      throw InternalError("a range lies outside its arena");
    }
    return HostAddress(range.place) + range.offset;
  }

 private:
  Arena arena_, host_arena_;
  ThreadPool& pool_;
};

class CpuReadback : public Readback {
 public:
  CpuReadback(CpuMemory& memory, std::vector<MemoryRange> ranges)
      : memory_(memory),
        ranges_(std::move(ranges)),
        bytes_(std::accumulate(
            ranges_.begin(), ranges_.end(), size_t{0},
            [](size_t sum, const MemoryRange& r) { return sum + Rounded(r.bytes); })) {}

  void Start() override {
    std::byte* to = bytes_.data();
    for (const MemoryRange& range : ranges_) {
      memory_.Read(range, to);
      to += Rounded(range.bytes);
    }
  }

  const std::byte* Wait() override { return bytes_.data(); }

 private:
  CpuMemory& memory_;
  std::vector<MemoryRange> ranges_;
  std::vector<std::byte> bytes_;
};

std::unique_ptr<Readback> CpuMemory::MakeReadback(std::vector<MemoryRange> ranges) {
  return std::make_unique<CpuReadback>(*this, std::move(ranges));
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(ThreadPool& pool) : Device(pool) {}

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override { return ProcessorName(); }
  std::unique_ptr<DeviceMemory> Allocate(int64_t arena_bytes, int64_t host_arena_bytes) override {
    return std::make_unique<CpuMemory>(arena_bytes, host_arena_bytes, pool());
  }
  std::unique_ptr<ops::Communicator> MakeCommunicator(RankGroup& ranks, const MeshAxis& /*axis*/,
                                                      int /*channels*/) override {
    return ranks.MakeCpuCommunicator();
  }
  int steps_ahead() const override { return 0; }
  void Synchronize() override {}
  double peak_flops(graph::DType, bool) const override { return 0; }
};

}  // namespace

std::unique_ptr<Device> MakeCpuDevice(ThreadPool& pool) {
  return std::make_unique<CpuDevice>(pool);
}

}  // namespace plimsoll::runtime
