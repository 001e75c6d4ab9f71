#include "runtime/tensor_memory.h"

#include <fmt/format.h>

#include "base/error.h"

namespace plimsoll::runtime {

ArenaTensors::ArenaTensors(const graph::Program& program, Layout layout, ArenaBases bases)
    : program_(program), layout_(std::move(layout)), bases_(bases) {
  for (size_t n = 0; n < program.nodes().size(); ++n) {
    const graph::Node& node = program.nodes()[n];
    if (node.op->view) CheckView(program, layout_, bases_, static_cast<int>(n));
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (graph::TensorId id : *ids) RefOf(program, layout_, bases_, node, id);
    }
    RefOf(program, layout_, bases_, node, node.workspace);
  }
}

std::byte* ArenaTensors::address(graph::TensorId id) const {
  const int64_t offset = layout_.offset(id);
  return offset == kUnplaced ? nullptr : bases_.of(program_.tensor(id).place) + offset;
}

std::byte* AddressFor(const TensorMemory& memory, const graph::Program& program, int node,
                      graph::TensorId argument) {
  if (argument == graph::kNoTensor) return nullptr;
  std::byte* const data = memory.address(argument);
  if (data == nullptr) {
    throw InternalError(fmt::format("{}: '{}' has no memory", DescribeNode(program, node),
                                    program.tensor(argument).name));
  }
  return data;
}

void CheckInstruments(const TensorMemory& memory, const graph::Program& program,
                      const ExecutorOptions& options) {
  if (!memory.moves() || !(options.poison || options.check_arena || options.check_finite)) return;
  throw InternalError(fmt::format(
      "program '{}': poison, check_arena and check_finite need an arena", program.name()));
}

}  // namespace plimsoll::runtime
