#include "trainer/step/carried_state.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/axes.h"
#include "graph/builder.h"
#include "ops/collective.h"
#include "ops/copy.h"
#include "parallel/parts.h"

namespace plimsoll::trainer {

using graph::Program;
using graph::Tensor;
using graph::Value;

std::vector<const Tensor*> CarriedState(std::span<const Program* const> step,
                                        std::span<const std::string> left_out) {
  std::vector<const Tensor*> state;
  std::set<std::string> names(left_out.begin(), left_out.end());
  for (const Program* program : step) {
    for (const Tensor& tensor : program->tensors()) {
      if (graph::OutlivesSteps(tensor) && names.insert(tensor.name).second) {
        state.push_back(&tensor);
      }
    }
  }
  return state;
}

bool SavedInParts(const graph::Shape& shape, int64_t ranks) {
  return parallel::IsDivided(shape, ranks);
}

std::unique_ptr<Program> CopyCarriedState(std::span<const Program* const> step, int64_t ranks,
                                          graph::Place place, std::span<const std::string> left_out,
                                          std::span<const std::string> own) {
  auto program = std::make_unique<Program>("snapshot");
  graph::Builder g(*program);
  g.set_made_by("snapshot");
  std::vector<std::pair<Value, Value>> copies;  // to, from
  for (const Tensor* tensor : CarriedState(step, left_out)) {
    g.set_scope(tensor->name);
    Value from = g.Persistent(tensor->name, tensor->role, tensor->type);
    program->mutable_tensor(from).place = tensor->place;
    const bool alike = std::ranges::find(own, tensor->name) == own.end();
    if (alike && SavedInParts(tensor->type.shape, ranks)) {
      from = ops::OwnPart(g, from, kDataAxis, parallel::PartOf(tensor->type.shape, ranks), "own");
    }
    const graph::TensorType type = program->tensor(from).type;
    const Value to = g.Persistent(CopyName(tensor->name), graph::Role::kSnapshot, type);
    program->mutable_tensor(to).place = place;
    g.EmitInto({to}, "copy_start", {from});
    copies.push_back({to, from});
  }
  for (const auto& [to, from] : copies) {
    g.set_scope(program->tensor(to).name);
    ops::CopyDone(g, to, from, "done");
  }
  return program;
}

std::string CopyName(const std::string& tensor) { return tensor + ".snapshot"; }

}  // namespace plimsoll::trainer
