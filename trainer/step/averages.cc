#include "trainer/step/averages.h"

#include <map>
#include <string_view>

#include "base/axes.h"
#include "graph/builder.h"
#include "ops/collectives/collective.h"
#include "ops/optimizer/weight_average.h"

namespace plimsoll::trainer {

using graph::kNoTensor;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::Value;

namespace {

// Declares a tensor of a step's program as a carried tensor of this program.
Value Take(graph::Builder& g, const Tensor& tensor) {
  return g.Persistent(tensor.name, tensor.role, tensor.type, tensor.owner);
}

// The rank's own shard of the weight, if the rank has only the average of that shard.
Value TakeOwn(graph::Builder& g, Value weight, Value average) {
  if (g.shape(average) == g.shape(weight)) return weight;
  const Value own = ops::OwnPart(g, weight, kDataAxis, g.shape(average), "own");
  g.program().mutable_tensor(own).role = Role::kParameter;
  g.program().mutable_tensor(own).persistent = true;
  return own;
}

}  // namespace

std::unique_ptr<Program> ExchangeAverages(std::span<const Program* const> step) {
  auto program = std::make_unique<Program>("exchange");
  graph::Builder g(*program);
  g.set_phase(graph::Phase::kUpdate);
  g.set_made_by("averages");
  for (const Program* of_step : step) {
    // Map an owner's name to its tensor.
    std::map<std::string_view, const Tensor*> masters, averages;
    for (const Tensor& tensor : of_step->tensors()) {
      if (!tensor.owner || tensor.alias) continue;
      if (tensor.role == Role::kMaster) masters[tensor.owner->name] = &tensor;
      if (tensor.owner->as == graph::OwnedAs::kAverage) averages[tensor.owner->name] = &tensor;
    }
    for (const Tensor& tensor : of_step->tensors()) {
      const auto average = averages.find(tensor.name), master = masters.find(tensor.name);
      if (average == averages.end() || program->Find(average->second->name) != kNoTensor) continue;
      g.set_scope(tensor.name);
      const Value to = Take(g, *average->second), weight = Take(g, tensor);
      const Value rest = master == masters.end() ? kNoTensor : Take(g, *master->second);
      ops::ExchangeAverage(g, {TakeOwn(g, weight, to), rest}, to);
    }
  }
  return program;
}

}  // namespace plimsoll::trainer
