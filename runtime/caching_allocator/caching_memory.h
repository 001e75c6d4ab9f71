// The memory of a step's programs, taken from caching allocators while the programs run. Persistent
// tensors are allocated at the start, in the plan's order, so that they don't fragment the memory
// of temporaries. A temporary is allocated before the node that first writes it, and freed after
// the node that last reads it. Inputs and metrics of a program always have memory.
//
// With a device's segments, this class implements `memory.allocator: caching`. With simulated
// segments, the same code computes the exact memory that a run would take (caching_allocation.h).
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
  // Whether an op may write over an input that it is the last to read, as in the plan; frameworks'
  // ops return new tensors instead. With `in_place`, only the allocator makes the memory differ
  // from the plan's; without, also the new tensors do.
  bool in_place = true;
  int64_t preallocate_bytes = 0;  // size of a first segment on the device; 0 means no such segment
  int64_t empty_cache_every = 0;  // number of steps between calls of EmptyCache(); 0: never called
};

class CachingMemory {
 public:
  // `device` and `host`: the sources of segments for each place. `poison`: fill temporaries with
  // NaN (all bits set) when they are allocated and when they are freed. The programs must outlive
  // this object. Throws InternalError if the programs name a persistent tensor that is not in the
  // plan, or if the plan names one twice.
  CachingMemory(const memory::PlannedPrograms& step, std::unique_ptr<SegmentSource> device,
                std::unique_ptr<SegmentSource> host, const CachingOptions& options = {},
                bool poison = false);
  ~CachingMemory();

  // The memory of each program.
  const std::vector<TensorMemory*>& programs() const { return programs_; }

  // Returns every segment that holds no tensor. Call this only between runs.
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
