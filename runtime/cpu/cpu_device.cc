// The CPU as a device: both arenas are ordinary memory, and all calls are synchronous.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "runtime/arena.h"
#include "runtime/cpu/cpu_executor.h"
#include "runtime/cpu/processor.h"
#include "runtime/device.h"

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

  std::vector<std::unique_ptr<Executor>> MakeExecutorsOn(std::span<TensorMemory* const> memories,
                                                         std::span<const BoundProgram> programs,
                                                         const ExecutorOptions& options) override {
    std::vector<std::unique_ptr<Executor>> executors;
    for (size_t i = 0; i < programs.size(); ++i) {
      executors.push_back(
          std::make_unique<CpuExecutor>(*programs[i].program, *memories[i], pool_, options));
    }
    return executors;
  }

  void Write(std::span<std::byte> to, const void* from) override {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
  }

  void Read(std::span<const std::byte> from, void* to) override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }

  std::unique_ptr<Readback> MakeReadback(std::vector<std::span<const std::byte>> ranges) override;

  std::byte* Address(const MemoryRange& range) override {
    if (range.offset < 0 || range.bytes < 0 || range.offset > bytes(range.place) - range.bytes) {
      throw InternalError("a range lies outside its arena");
    }
    return ArenaAt(range.place).data() + range.offset;
  }

 private:
  const Arena& ArenaAt(graph::Place place) const {
    return place == graph::Place::kDevice ? arena_ : host_arena_;
  }

  Arena arena_, host_arena_;
  ThreadPool& pool_;
};

class CpuReadback : public Readback {
 public:
  CpuReadback(CpuMemory& memory, std::vector<std::span<const std::byte>> ranges)
      : memory_(memory),
        ranges_(std::move(ranges)),
        bytes_(std::accumulate(
            ranges_.begin(), ranges_.end(), size_t{0},
            [](size_t sum, std::span<const std::byte> r) { return sum + Rounded(r.size()); })) {}

  void Start() override {
    std::byte* to = bytes_.data();
    for (const std::span<const std::byte> range : ranges_) {
      memory_.Read(range, to);
      to += Rounded(range.size());
    }
  }

  const std::byte* Wait() override { return bytes_.data(); }

  std::optional<double> SecondsSince(const Readback&) const override { return std::nullopt; }

 private:
  CpuMemory& memory_;
  std::vector<std::span<const std::byte>> ranges_;
  std::vector<std::byte> bytes_;
};

std::unique_ptr<Readback> CpuMemory::MakeReadback(std::vector<std::span<const std::byte>> ranges) {
  return std::make_unique<CpuReadback>(*this, std::move(ranges));
}

// Anonymous memory of the system. Its zeroed pages are provided at their first use and dropped when
// the segment is returned. This is the cost of frequent reserving and returning.
class MappedSegments : public SegmentSource {
 public:
  uintptr_t Reserve(int64_t bytes) override {
    const size_t size = static_cast<size_t>(bytes);
    void* mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return 0;
    // Asks for huge pages like the arena (runtime/arena.cc); a refusal only costs speed.
    madvise(mapping, size, MADV_HUGEPAGE);
    return reinterpret_cast<uintptr_t>(mapping);
  }
  void Return(uintptr_t address, int64_t bytes) override {
    if (munmap(reinterpret_cast<void*>(address), static_cast<size_t>(bytes)) == 0) return;
    throw InternalError(
        fmt::format("a segment of {} bytes cannot be returned: {}", bytes, std::strerror(errno)));
  }
  void Fill(uintptr_t address, int64_t bytes, unsigned char value) override {
    std::memset(reinterpret_cast<void*>(address), value, static_cast<size_t>(bytes));
  }
};

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
  std::unique_ptr<StageLink> MakeStageLink(RankGroup& stages, std::vector<int64_t> ranks,
                                           int /*channels*/) override {
    return stages.MakeCpuStageLink(std::move(ranks));
  }
  std::unique_ptr<SegmentSource> MakeSegments(graph::Place) override {
    return std::make_unique<MappedSegments>();
  }
  int steps_ahead() const override { return 0; }
  void Store(const StoredParameter& to, const Stripe& from, const InitialDraws& draws) override {
    ForPieces(from, [&](int64_t begin, int64_t end) {
      to.Part(begin, end).Draw(draws, from.Number(begin));
    });
  }
  void Store(const StoredParameter& to, const Stripe& from, const TypedElements& values) override {
    CheckStore(to, from, values);
    ForPieces(from, [&](int64_t begin, int64_t end) {
      const int64_t first = from.Number(begin);
      to.Part(begin, end).Set(values.Part(first, first + end - begin));
    });
  }
  void Store(std::byte* to, std::span<const std::byte> bytes) override {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  }
  void AwaitStores() override {}
  std::span<std::byte> Staging(int64_t bytes) override {
    staging_.reset();  // frees the old buffer before a new one is allocated
    staging_.emplace(bytes);
    return {staging_->data(), static_cast<size_t>(bytes)};
  }
  void Synchronize() override {}
  double peak_flops(graph::DType, bool) const override { return 0; }

 private:
  // Splits the stripe's elements into pieces for all threads: calls body(begin, end) for
  // consecutive elements that are also consecutive within their row.
  template <typename Body>
  void ForPieces(const Stripe& from, const Body& body) {
    constexpr int64_t kGrain = 1 << 15;
    pool().ParallelFor(from.count, kGrain, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t piece = std::min(end, begin + from.Together(begin));
        body(begin, piece);
        begin = piece;
      }
    });
  }

  std::optional<Arena> staging_;
};

}  // namespace

std::unique_ptr<Device> MakeCpuDevice(ThreadPool& pool) {
  return std::make_unique<CpuDevice>(pool);
}

}  // namespace plimsoll::runtime
