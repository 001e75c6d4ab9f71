// The memory of a step's programs, taken from caching allocators while they run: persistent tensors
// get theirs at the start; a temporary gets it before the node that first writes it, and gives it
// back after the node that last reads it.
//
// With a device's segments this implements `memory.allocator: caching`; with simulated ones the
// same code tells exactly what a run would take (memory/caching_replay).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.h"
#include "runtime/caching_allocator/allocation_schedule.h"
#include "runtime/caching_allocator/caching_allocator.h"
#include "runtime/caching_allocator/tensor_memory.h"

namespace plimsoll::runtime {

struct CachingMemoryOptions {
  int64_t preallocate_bytes = 0;  // on the device, in one segment; 0: grow from nothing
  // Fill temporaries with NaN (all bits set) when they get memory and when they give it back.
  bool poison = false;
};

class CachingMemory {
 public:
  // `device` and `host`: where the segments of each place come from.
  CachingMemory(std::unique_ptr<SegmentSource> device, std::unique_ptr<SegmentSource> host,
                CachingMemoryOptions options = {});
  ~CachingMemory();

  // Add persistent tensors first, so that they don't fragment the memory of temporaries. Their
  // bytes are zero. Throws InternalError on a name given twice.
  void AddPersistent(const std::string& name, int64_t bytes, graph::Place place);

  // The program must outlive this object. The program's slots get their memory here. Throws
  // InternalError when the program names a persistent tensor that was not added.
  TensorMemory& AddProgram(const graph::Program& program, AllocationSchedule schedule);

  // Returns every segment that holds no tensor. Call it only between runs.
  void EmptyCache();

  CachingAllocator& allocator(graph::Place place) {
    return place == graph::Place::kDevice ? device_ : host_;
  }
  const CachingStats& stats() const { return device_.stats(); }
  const CachingStats& host_stats() const { return host_.stats(); }

 private:
  class ProgramMemory;

  void Fill(graph::Place place, uintptr_t address, int64_t bytes, unsigned char value);

  CachingMemoryOptions options_;
  std::unique_ptr<SegmentSource> device_segments_, host_segments_;
  CachingAllocator device_, host_;
  std::map<std::string, uintptr_t, std::less<>> persistent_;
  std::vector<std::unique_ptr<ProgramMemory>> programs_;
};

}  // namespace plimsoll::runtime
