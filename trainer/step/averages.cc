#include "trainer/step/averages.h"

#include <string>

#include "base/axes.h"
#include "graph/builder.h"
#include "ops/collectives/collective.h"
#include "ops/optimizer/weight_average.h"
#include "optim/update.h"

namespace plimsoll::trainer {

using graph::kNoTensor;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::Value;

namespace {

// The tensor of that name of a step's program, as a carried tensor of this program; kNoTensor: it
// has none.
Value Take(graph::Builder& g, const Program& of_step, const std::string& name) {
  const Value found = of_step.Find(name);
  if (found == kNoTensor) return kNoTensor;
  const Tensor& tensor = of_step.tensor(found);
  return g.Persistent(name, tensor.role, tensor.type);
}

// A rank's own part, where it has the average of that alone.
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
    for (const Tensor& tensor : of_step->tensors()) {
      const std::string average = optim::AverageName(tensor.name);
      const bool averaged = tensor.role == Role::kParameter || tensor.role == Role::kState;
      if (!averaged || tensor.alias || of_step->Find(average) == kNoTensor) continue;
      if (program->Find(average) != kNoTensor) continue;
      g.set_scope(tensor.name);
      const Value to = Take(g, *of_step, average), weight = Take(g, *of_step, tensor.name);
      Value master = Take(g, *of_step, tensor.name + ".remainder");
      if (master == kNoTensor) master = Take(g, *of_step, tensor.name + ".master");
      ops::ExchangeAverage(g, {TakeOwn(g, weight, to), master}, to);
    }
  }
  return program;
}

}  // namespace plimsoll::trainer
