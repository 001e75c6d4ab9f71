#include "trainer/plan/memory_timeline.h"

#include <nlohmann/json.hpp>

#include "memory/timeline.h"
#include "trainer/step/caching.h"

namespace plimsoll::trainer {
namespace {

using memory::TimelineBuffer;
using memory::TimelineTensor;
using nlohmann::ordered_json;

ordered_json BufferJson(const TimelineBuffer& buffer) {
  const TimelineTensor& first = buffer.tensors.front();
  ordered_json json = {{"name", first.name},
                       {"type", first.type.ToString()},
                       {"role", graph::Name(first.role)},
                       {"op", first.op},
                       {"scope", first.scope},
                       {"place", graph::Name(buffer.place)},
                       {"offset", buffer.offset},
                       {"bytes", buffer.bytes},
                       {"birth", buffer.birth},
                       {"death", buffer.death}};
  for (size_t i = 1; i < buffer.tensors.size(); ++i) {
    const TimelineTensor& tensor = buffer.tensors[i];
    json["then"].push_back({{"name", tensor.name},
                            {"type", tensor.type.ToString()},
                            {"role", graph::Name(tensor.role)},
                            {"op", tensor.op},
                            {"scope", tensor.scope},
                            {"birth", tensor.birth}});
  }
  return json;
}

ordered_json ProgramJson(const graph::Program& program, const memory::ProgramTimeline& timeline) {
  ordered_json nodes = ordered_json::array(), buffers = ordered_json::array();
  for (const graph::Node& node : program.nodes()) {
    nodes.push_back(
        {{"op", node.op->name}, {"scope", node.scope}, {"phase", graph::Name(node.phase)}});
  }
  for (const TimelineBuffer& buffer : timeline.buffers) buffers.push_back(BufferJson(buffer));
  return {{"name", timeline.name},
          {"nodes", std::move(nodes)},
          {"buffers", std::move(buffers)},
          {"live_bytes", timeline.live_bytes},
          {"host_live_bytes", timeline.host_live_bytes}};
}

}  // namespace

ordered_json MemoryTimelineJson(const CompiledStep& compiled) {
  const memory::MemoryPlan& plan = compiled.plan;
  const std::vector<const graph::Program*> programs = Programs(compiled);
  ordered_json json = {{"alignment", plan.alignment},
                       {"arena_bytes", plan.arena_bytes},
                       {"persistent_bytes", plan.persistent_bytes},
                       {"host_arena_bytes", plan.host_arena_bytes},
                       {"host_persistent_bytes", plan.host_persistent_bytes},
                       {"persistent", ordered_json::array()},
                       {"programs", ordered_json::array()}};
  for (const memory::PersistentTensor& tensor : plan.persistent) {
    json["persistent"].push_back({{"name", tensor.name},
                                  {"type", tensor.type.ToString()},
                                  {"role", graph::Name(tensor.role)},
                                  {"place", graph::Name(tensor.place)},
                                  {"offset", tensor.offset},
                                  {"bytes", tensor.bytes}});
  }
  const auto timelines = memory::MakeTimelines(programs, plan);
  for (size_t p = 0; p < programs.size(); ++p) {
    json["programs"].push_back(ProgramJson(*programs[p], timelines[p]));
  }
  return json;
}

}  // namespace plimsoll::trainer
