#include "trainer/plan/memory_timeline.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "memory/lifetimes.h"

namespace plimsoll::trainer {
namespace {

using graph::Program;
using memory::Buffer;
using memory::Lifetimes;
using nlohmann::ordered_json;

// The members of all tensors. `writer` is nullptr if another program writes the tensor.
ordered_json NamedJson(const std::string& name, const graph::TensorType& type, graph::Role role,
                       const graph::Node* writer) {
  return {{"name", name},
          {"type", type.ToString()},
          {"role", graph::Name(role)},
          {"op", writer == nullptr ? "" : writer->op->name},
          {"scope", writer == nullptr ? "" : writer->scope}};
}

ordered_json TensorJson(const Program& program, const Lifetimes& lifetimes, graph::TensorId id) {
  const graph::Tensor& tensor = program.tensor(id);
  ordered_json json =
      NamedJson(tensor.name, tensor.type, tensor.role, memory::WriterOf(program, lifetimes, id));
  if (tensor.persistent) json["kept"] = true;
  return json;
}

ordered_json BufferJson(const Program& program, const Lifetimes& lifetimes, const Buffer& buffer,
                        const runtime::Layout& layout) {
  ordered_json json = TensorJson(program, lifetimes, buffer.tensors.front());
  json["place"] = graph::Name(buffer.place);
  json["offset"] = layout.offset(buffer.tensors.front());
  json["bytes"] = RoundUp(buffer.bytes, layout.alignment);
  json["birth"] = buffer.birth;
  json["death"] = buffer.death;
  for (size_t i = 1; i < buffer.tensors.size(); ++i) {
    ordered_json then = TensorJson(program, lifetimes, buffer.tensors[i]);
    then["birth"] = lifetimes.first_use[buffer.tensors[i]];
    json["then"].push_back(std::move(then));
  }
  return json;
}

// A kept tensor whose value a program needs throughout.
ordered_json KeptJson(const memory::PersistentTensor& tensor, size_t nodes) {
  ordered_json json = NamedJson(tensor.name, tensor.type, tensor.role, nullptr);
  json["kept"] = true;
  json["place"] = graph::Name(tensor.place);
  json["offset"] = tensor.offset;
  json["bytes"] = tensor.bytes;
  json["birth"] = 0;
  json["death"] = static_cast<int64_t>(nodes) - 1;
  return json;
}

ordered_json TimelineJson(const Program& program, const memory::ProgramPlan& plan,
                          const std::vector<memory::PersistentTensor>& persistent) {
  ordered_json nodes = ordered_json::array(), buffers = ordered_json::array();
  for (const graph::Node& node : program.nodes()) {
    nodes.push_back(
        {{"op", node.op->name}, {"scope", node.scope}, {"phase", graph::Name(node.phase)}});
  }
  const Lifetimes lifetimes = memory::ComputeLifetimes(program, /*in_place=*/true, plan.kept);
  for (const Buffer& buffer : lifetimes.buffers) {
    buffers.push_back(BufferJson(program, lifetimes, buffer, plan.layout));
  }
  for (const memory::PersistentTensor& tensor : persistent) {
    const auto need = plan.kept.find(tensor.name);
    if (nodes.empty() || need == plan.kept.end() || !need->second.throughout()) continue;
    buffers.push_back(KeptJson(tensor, nodes.size()));
  }
  return {{"name", plan.name},
          {"nodes", std::move(nodes)},
          {"buffers", std::move(buffers)},
          {"live_bytes", plan.live_bytes},
          {"host_live_bytes", plan.host_live_bytes}};
}

}  // namespace

ordered_json MemoryTimelineJson(const CompiledStep& compiled) {
  const memory::MemoryPlan& plan = compiled.plan;
  ordered_json json = {{"alignment", plan.alignment},
                       {"arena_bytes", plan.arena_bytes},
                       {"persistent_bytes", plan.persistent_bytes},
                       {"host_arena_bytes", plan.host_arena_bytes},
                       {"host_persistent_bytes", plan.host_persistent_bytes},
                       {"persistent", ordered_json::array()},
                       {"programs", ordered_json::array()}};
  for (const memory::PersistentTensor& tensor : plan.persistent) {
    // Kept tensors are among the buffers of the programs that need them.
    if (!plan.programs.empty() && plan.programs.front().kept.contains(tensor.name)) continue;
    json["persistent"].push_back({{"name", tensor.name},
                                  {"type", tensor.type.ToString()},
                                  {"role", graph::Name(tensor.role)},
                                  {"place", graph::Name(tensor.place)},
                                  {"offset", tensor.offset},
                                  {"bytes", tensor.bytes}});
  }
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    json["programs"].push_back(
        TimelineJson(*compiled.programs[p], plan.programs[p], plan.persistent));
  }
  return json;
}

}  // namespace plimsoll::trainer
