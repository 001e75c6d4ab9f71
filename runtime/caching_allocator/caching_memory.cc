#include "runtime/caching_allocator/caching_memory.h"

#include <fmt/format.h>

#include "base/error.h"

namespace plimsoll::runtime {
namespace {

constexpr char kName[] = "memory.allocator: caching";

}  // namespace

class CachingMemory::ProgramMemory : public TensorMemory {
 public:
  ProgramMemory(CachingMemory& memory, const graph::Program& program, AllocationSchedule schedule)
      : memory_(memory),
        schedule_(std::move(schedule)),
        buffers_(schedule_.buffers.size(), 0),
        places_(program.tensors().size()) {
    for (size_t id = 0; id < places_.size(); ++id) {
      places_[id] = PlaceOf(program, static_cast<graph::TensorId>(id));
    }
    for (int32_t buffer : schedule_.held) Allocate(buffer);
  }

  void BeforeRun() override {
    // Frees what a failed run has left.
    for (const auto& dying : schedule_.dying) {
      for (int32_t buffer : dying) {
        if (buffers_[buffer] != 0) Free(buffer);
      }
    }
  }

  void BeforeNode(int node) override {
    for (int32_t buffer : schedule_.born[node]) Allocate(buffer);
  }

  bool TakesMemory(int node) const override { return !schedule_.born[node].empty(); }

  void AfterNode(int node) override {
    for (int32_t buffer : schedule_.dying[node]) Free(buffer);
  }

  std::byte* address(graph::TensorId id) const override {
    const Where& where = places_[id];
    const uintptr_t base = where.buffer >= 0 ? buffers_[where.buffer] : where.persistent;
    return base == 0 ? nullptr : reinterpret_cast<std::byte*>(base + where.offset);
  }

 private:
  // A tensor's bytes start `offset` bytes into a buffer or into a persistent tensor.
  struct Where {
    int32_t buffer = -1;
    uintptr_t persistent = 0;
    uintptr_t offset = 0;
  };

  Where PlaceOf(const graph::Program& program, graph::TensorId id) const {
    Where where;
    where.buffer = schedule_.buffer_of[id];
    graph::TensorId root = id;
    while (program.tensor(root).alias) {
      const graph::Tensor& view = program.tensor(root);
      where.offset +=
          static_cast<uintptr_t>(view.alias->OffsetOn(schedule_.position, view.bytes()));
      root = view.alias->base;
    }
    const graph::Tensor& owner = program.tensor(root);
    if (!owner.persistent) return where;
    const auto found = memory_.persistent_.find(owner.name);
    if (found == memory_.persistent_.end()) {
      throw InternalError(fmt::format("program '{}': the persistent tensor '{}' has no memory",
                                      program.name(), owner.name));
    }
    where.persistent = found->second;
    return where;
  }

  void Allocate(int32_t buffer) {
    const AllocationSchedule::Buffer& what = schedule_.buffers[buffer];
    buffers_[buffer] = memory_.allocator(what.place).Allocate(what.bytes);
    Poison(buffer);
  }

  void Free(int32_t buffer) {
    Poison(buffer);
    memory_.allocator(schedule_.buffers[buffer].place).Free(buffers_[buffer]);
    buffers_[buffer] = 0;
  }

  void Poison(int32_t buffer) const {
    if (!memory_.options_.poison) return;
    const AllocationSchedule::Buffer& what = schedule_.buffers[buffer];
    memory_.Fill(what.place, buffers_[buffer], what.bytes, 0xFF);
  }

  CachingMemory& memory_;
  const AllocationSchedule schedule_;
  std::vector<uintptr_t> buffers_;  // addresses, 0: no memory at this time
  std::vector<Where> places_;       // by TensorId
};

CachingMemory::CachingMemory(std::unique_ptr<SegmentSource> device,
                             std::unique_ptr<SegmentSource> host, CachingMemoryOptions options)
    : options_(options),
      device_segments_(std::move(device)),
      host_segments_(std::move(host)),
      device_(*device_segments_, kName),
      host_(*host_segments_, kName) {
  if (options.preallocate_bytes > 0) device_.Preallocate(options.preallocate_bytes);
}

CachingMemory::~CachingMemory() = default;

void CachingMemory::AddPersistent(const std::string& name, int64_t bytes, graph::Place place) {
  const uintptr_t address = allocator(place).Allocate(bytes);
  if (!persistent_.emplace(name, address).second) {
    throw InternalError("persistent tensor '" + name + "' was given memory twice");
  }
  Fill(place, address, bytes, 0);
}

void CachingMemory::Fill(graph::Place place, uintptr_t address, int64_t bytes,
                         unsigned char value) {
  const auto& segments = place == graph::Place::kDevice ? device_segments_ : host_segments_;
  segments->Fill(address, bytes, value);
}

TensorMemory& CachingMemory::AddProgram(const graph::Program& program,
                                        AllocationSchedule schedule) {
  programs_.push_back(std::make_unique<ProgramMemory>(*this, program, std::move(schedule)));
  return *programs_.back();
}

void CachingMemory::EmptyCache() {
  device_.EmptyCache();
  host_.EmptyCache();
}

}  // namespace plimsoll::runtime
