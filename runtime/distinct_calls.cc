#include "runtime/distinct_calls.h"

#include <fmt/format.h>

#include <iterator>
#include <variant>
#include <vector>

namespace plimsoll::runtime {
namespace {

using graph::Program;
using graph::TensorId;

void AddTensors(const Program& program, const std::vector<TensorId>& ids, std::string& text) {
  for (const TensorId id : ids) {
    if (id == graph::kNoTensor) {
      text += " _";
      continue;
    }
    const graph::Tensor& tensor = program.tensor(id);
    fmt::format_to(std::back_inserter(text), " {}{}", tensor.type.ToString(),
                   tensor.place == graph::Place::kHost ? "@host" : "");
  }
}

}  // namespace

bool DistinctCalls::Add(const Program& program, std::span<const int> nodes) {
  std::string text;
  for (const int index : nodes) {
    const graph::Node& node = program.nodes()[static_cast<size_t>(index)];
    text += node.op->name;
    AddTensors(program, node.inputs, text);
    text += " ->";
    AddTensors(program, node.outputs, text);
    for (const auto& [name, value] : node.attributes.entries()) {
      if (name == "key") continue;
      std::visit(
          [&](const auto& held) {
            fmt::format_to(std::back_inserter(text), " {}={}", name, held);
          },
          value);
    }
    text += '\n';
  }
  return added_.insert(std::move(text)).second;
}

}  // namespace plimsoll::runtime
