// The memory of a step's programs, taken from caching allocators while they run: persistent tensors
// get theirs at the start, in the plan's order, so that they don't fragment the memory of
// temporaries. A temporary gets it before the node that first writes it, and gives it back after
// the node that last reads it. Inputs and metrics of a program always have memory.
//
// With a device's segments this implements `memory.allocator: caching`; with simulated ones the
// same code tells exactly what a run would take (caching_allocation.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "memory/plan.h"
#include "runtime/caching_allocator/caching_allocator.h"
#include "runtime/tensor_memory.h"

namespace plimsoll::runtime {

struct CachingOptions {
  // Frameworks' ops return new tensors where the plan lets an op write over its dying input. With
  // `in_place` memory differs from the plan's by the allocator alone; without, by both.
  bool in_place = true;
  int64_t preallocate_bytes = 0;  // on the device, in one segment; 0: grow from nothing
  int64_t empty_cache_every = 0;  // steps; 0: never
};

class CachingMemory {
 public:
  // `device` and `host`: where the segments of each place come from. `poison`: fill temporaries
  // with NaN (all bits set) when they get memory and when they give it back. The programs must
  // outlive this object. InternalError when they name a persistent tensor that the plan has not, or
  // the plan names one twice.
  CachingMemory(const memory::PlannedPrograms& step, std::unique_ptr<SegmentSource> device,
                std::unique_ptr<SegmentSource> host, const CachingOptions& options = {},
                bool poison = false);
  ~CachingMemory();

  // By program.
  const std::vector<TensorMemory*>& programs() const { return programs_; }

  // Returns every segment that holds no tensor. Call it only between runs.
  void EmptyCache();

  CachingAllocator& allocator(graph::Place place) {
    return place == graph::Place::kDevice ? device_ : host_;
  }
  const AllocatorStats& stats() const { return device_.stats(); }
  const AllocatorStats& host_stats() const { return host_.stats(); }

 private:
  class ProgramMemory;

  void Fill(graph::Place place, uintptr_t address, int64_t bytes, unsigned char value);

  const bool poison_;
  std::unique_ptr<SegmentSource> device_segments_, host_segments_;
  CachingAllocator device_, host_;
  std::map<std::string, uintptr_t, std::less<>> persistent_;
  std::vector<std::unique_ptr<ProgramMemory>> memories_;
  std::vector<TensorMemory*> programs_;
};

}  // namespace plimsoll::runtime
