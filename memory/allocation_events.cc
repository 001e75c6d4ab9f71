#include "memory/allocation_events.h"

#include <algorithm>

#include "memory/lifetimes.h"

namespace plimsoll::memory {

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

}  // namespace plimsoll::memory
