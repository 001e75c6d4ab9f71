#include "runtime/caching_allocator/caching_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "memory/lifetimes.h"

namespace plimsoll::runtime {

class CachingMemory::ProgramMemory : public TensorMemory {
 public:
  // `layout` is the plan's: it gives the offset of each view in its tensor.
  ProgramMemory(CachingMemory& memory, const graph::Program& program, bool in_place,
                const Layout& layout)
      : memory_(memory),
        lifetimes_(memory::ComputeLifetimes(program, in_place)),
        addresses_(lifetimes_.buffers.size(), 0),
        born_(program.nodes().size()),
        dying_(program.nodes().size()) {
    for (size_t id = 0; id < program.tensors().size(); ++id) {
      places_.push_back(PlaceOf(program, static_cast<graph::TensorId>(id), layout));
    }
    for (size_t i = 0; i < addresses_.size(); ++i) {
      const memory::Buffer& buffer = lifetimes_.buffers[i];
      const bool held = std::ranges::any_of(buffer.tensors, [&](graph::TensorId id) {
        const graph::Role role = program.tensor(id).role;
        return role == graph::Role::kInput || role == graph::Role::kMetric;
      });
      if (held) {
        Allocate(i);
      } else {
        born_[buffer.birth].push_back(i);
        dying_[buffer.death].push_back(i);
      }
    }
  }

  void BeforeRun() override {
    // Frees the tensors that a failed run has left.
    for (const auto& dying : dying_) {
      for (size_t buffer : dying) {
        if (addresses_[buffer] != 0) Free(buffer);
      }
    }
  }

  void BeforeNode(int node) override {
    for (size_t buffer : born_[node]) Allocate(buffer);
  }

  bool TakesMemory(int node) const override { return !born_[node].empty(); }

  void AfterNode(int node) override {
    for (size_t buffer : dying_[node]) Free(buffer);
  }

  bool moves() const override { return true; }

  std::byte* address(graph::TensorId id) const override {
    const Where& where = places_[id];
    const uintptr_t base = where.buffer >= 0 ? addresses_[where.buffer] : where.persistent;
    return base == 0 ? nullptr : reinterpret_cast<std::byte*>(base + where.offset);
  }

 private:
  // The place of a tensor: it starts `offset` bytes into a buffer or into a persistent tensor.
  struct Where {
    int32_t buffer = -1;
    uintptr_t persistent = 0;
    uintptr_t offset = 0;
  };

  Where PlaceOf(const graph::Program& program, graph::TensorId id, const Layout& layout) const {
    const graph::TensorId root = program.Root(id);
    const graph::Tensor& owner = program.tensor(root);
    Where where{.buffer = lifetimes_.buffer_of[id],
                .offset = static_cast<uintptr_t>(layout.offset(id) - layout.offset(root))};
    if (!owner.persistent) return where;
    const auto found = memory_.persistent_.find(owner.name);
    if (found == memory_.persistent_.end()) {
      throw InternalError(fmt::format("program '{}': the persistent tensor '{}' has no memory",
                                      program.name(), owner.name));
    }
    where.persistent = found->second;
    return where;
  }

  void Allocate(size_t buffer) {
    const memory::Buffer& what = lifetimes_.buffers[buffer];
    addresses_[buffer] = memory_.allocator(what.place).Allocate(what.bytes);
    Poison(buffer);
  }

  void Free(size_t buffer) {
    Poison(buffer);
    memory_.allocator(lifetimes_.buffers[buffer].place).Free(std::exchange(addresses_[buffer], 0));
  }

  void Poison(size_t buffer) const {
    const memory::Buffer& what = lifetimes_.buffers[buffer];
    if (memory_.poison_) memory_.Fill(what.place, addresses_[buffer], what.bytes, 0xFF);
  }

  CachingMemory& memory_;
  const memory::Lifetimes lifetimes_;
  std::vector<uintptr_t> addresses_;  // address of each buffer; 0 if it has no memory at this time
  std::vector<std::vector<size_t>> born_, dying_;  // buffers allocated and freed at each node
  std::vector<Where> places_;                      // place of each tensor, by TensorId
};

CachingMemory::CachingMemory(const memory::PlannedPrograms& step,
                             std::unique_ptr<SegmentSource> device,
                             std::unique_ptr<SegmentSource> host, const CachingOptions& options,
                             bool poison)
    : poison_(poison),
      device_segments_(std::move(device)),
      host_segments_(std::move(host)),
      device_(*device_segments_),
      host_(*host_segments_) {
  if (options.preallocate_bytes > 0) device_.Preallocate(options.preallocate_bytes);
  for (const memory::PersistentTensor& tensor : step.plan.persistent) {
    const uintptr_t address = allocator(tensor.place).Allocate(tensor.type.bytes());
    if (!persistent_.emplace(tensor.name, address).second) {
      throw InternalError("persistent tensor '" + tensor.name + "' was given memory twice");
    }
    Fill(tensor.place, address, tensor.type.bytes(), 0);
  }
  for (size_t p = 0; p < step.programs.size(); ++p) {
    memories_.push_back(std::make_unique<ProgramMemory>(*this, *step.programs[p], options.in_place,
                                                        step.plan.programs[p].layout));
    programs_.push_back(memories_.back().get());
  }
}

CachingMemory::~CachingMemory() = default;

void CachingMemory::Fill(graph::Place place, uintptr_t address, int64_t bytes,
                         unsigned char value) {
  const auto& segments = place == graph::Place::kDevice ? device_segments_ : host_segments_;
  segments->Fill(address, bytes, value);
}

void CachingMemory::EmptyCache() {
  device_.EmptyCache();
  host_.EmptyCache();
}

}  // namespace plimsoll::runtime
