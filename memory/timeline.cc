#include "memory/timeline.h"

#include <numeric>

#include "memory/lifetimes.h"

namespace plimsoll::memory {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

// By TensorId: the first node that writes the tensor or an alias of it; -1: none.
std::vector<int32_t> Writers(const Program& program) {
  std::vector<int32_t> writer(program.tensors().size(), -1);
  for (size_t n = 0; n < program.nodes().size(); ++n) {
    const Node& node = program.nodes()[n];
    auto written = [&](TensorId id) {
      if (id == kNoTensor || node.op->view) return;
      int32_t& of_root = writer[program.Root(id)];
      if (of_root < 0) of_root = static_cast<int32_t>(n);
    };
    for (TensorId id : node.outputs) written(id);
    written(node.workspace);
  }
  return writer;
}

TimelineBuffer Describe(const Program& program, const Lifetimes& lifetimes, const Buffer& buffer,
                        const std::vector<int32_t>& writers, const runtime::Layout& layout) {
  TimelineBuffer result;
  result.place = buffer.place;
  result.offset = layout.offset(buffer.tensors.front());
  result.bytes = (buffer.bytes + layout.alignment - 1) / layout.alignment * layout.alignment;
  result.birth = buffer.birth;
  result.death = buffer.death;
  for (TensorId id : buffer.tensors) {
    const graph::Tensor& tensor = program.tensor(id);
    TimelineTensor entry;
    entry.name = tensor.name;
    entry.type = tensor.type;
    entry.role = tensor.role;
    if (writers[id] >= 0) {
      entry.op = program.nodes()[writers[id]].op->name;
      entry.scope = program.nodes()[writers[id]].scope;
    }
    entry.birth = result.tensors.empty() ? buffer.birth : lifetimes.first_use[id];
    entry.death = buffer.death;
    if (!result.tensors.empty()) result.tensors.back().death = entry.birth - 1;
    result.tensors.push_back(std::move(entry));
  }
  return result;
}

std::vector<int64_t> LiveBytes(const ProgramTimeline& timeline, size_t nodes, graph::Place place,
                               int64_t persistent_bytes) {
  std::vector<int64_t> live(nodes + 1, 0);
  live[0] = persistent_bytes;
  for (const TimelineBuffer& buffer : timeline.buffers) {
    if (buffer.place != place) continue;
    live[buffer.birth] += buffer.bytes;
    live[buffer.death + 1] -= buffer.bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  return live;
}

}  // namespace

std::vector<ProgramTimeline> MakeTimelines(std::span<const Program* const> programs,
                                           const MemoryPlan& plan, bool in_place) {
  std::vector<ProgramTimeline> timelines;
  for (size_t p = 0; p < programs.size(); ++p) {
    const Program& program = *programs[p];
    const Lifetimes lifetimes = ComputeLifetimes(program, in_place);
    const std::vector<int32_t> writers = Writers(program);
    ProgramTimeline& timeline = timelines.emplace_back();
    timeline.name = program.name();
    for (const Buffer& buffer : lifetimes.buffers) {
      timeline.buffers.push_back(
          Describe(program, lifetimes, buffer, writers, plan.programs[p].layout));
    }
    const size_t nodes = program.nodes().size();
    timeline.live_bytes = LiveBytes(timeline, nodes, graph::Place::kDevice, plan.persistent_bytes);
    timeline.host_live_bytes =
        LiveBytes(timeline, nodes, graph::Place::kHost, plan.host_persistent_bytes);
  }
  return timelines;
}

}  // namespace plimsoll::memory
