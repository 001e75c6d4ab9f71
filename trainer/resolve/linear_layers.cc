#include "trainer/resolve/linear_layers.h"

#include "graph/block.h"
#include "graph/builder.h"

namespace plimsoll::trainer {

std::vector<graph::Program> LossPrograms(const models::Model& model, int64_t sequence) {
  std::vector<graph::Program> programs;
  for (const models::Objective& objective : model.objectives()) {
    graph::Builder builder(programs.emplace_back("loss"));
    model.Build(builder, {.batch = 1, .sequence = sequence}, models::Head::kLoss, false,
                objective.name);
  }
  return programs;
}

std::map<std::string, std::vector<std::string>> LinearLayersInBlocks(const models::Model& model,
                                                                     int64_t sequence) {
  std::map<std::string, std::vector<std::string>> weights;
  for (const graph::Program& program : LossPrograms(model, sequence)) {
    const graph::Blocks blocks(program);
    for (size_t n = 0; n < program.nodes().size(); ++n) {
      const graph::Node& node = program.nodes()[n];
      if (node.op->name != "linear" || blocks.Of(n) == graph::kNoBlock) continue;
      weights[blocks.name(blocks.Of(n))].push_back(
          program.tensor(program.Root(node.inputs[1])).name);
    }
  }
  return weights;
}

}  // namespace plimsoll::trainer
