#include "optim/update.h"

#include "base/error.h"
#include "base/glob.h"
#include "graph/autodiff.h"
#include "graph/builder.h"

namespace plimsoll::optim {

using graph::Builder;
using graph::DType;
using graph::kNoTensor;
using graph::Role;
using graph::TensorId;
using graph::Value;

double Update::DecayOf(const graph::Tensor& parameter) const {
  for (const DecayGroup& group : options_.groups) {
    if (MatchesGlob(group.pattern, parameter.name)) return group.weight_decay;
  }
  return parameter.type.shape.rank() >= 2 ? options_.weight_decay : 0;
}

graph::PassResult Update::Run(graph::Program& program) {
  std::vector<TensorId> parameters, gradients;
  for (size_t i = 0; i < program.tensors().size(); ++i) {
    const graph::Tensor& tensor = program.tensors()[i];
    if (tensor.role != Role::kParameter) continue;
    const TensorId gradient = program.Find(graph::GradientName(tensor.name));
    if (gradient == kNoTensor) continue;
    parameters.push_back(static_cast<TensorId>(i));
    gradients.push_back(gradient);
  }
  if (gradients.empty()) throw InternalError("update: no gradients");

  Builder g(program);
  g.set_phase(graph::Phase::kUpdate);
  g.set_made_by("update");
  const graph::TensorType scalar{DType::kFloat32, {}};
  const Value lr = g.Persistent("lr", Role::kInput, scalar);
  const Value norm = g.Persistent("grad_norm", Role::kMetric, scalar);
  g.EmitInto({norm}, "global_norm", gradients);
  Value clip = kNoTensor;
  if (options_.clip_grad_norm > 0) {
    clip = g.Emit1("clip_factor", {norm}, {{"max_norm", options_.clip_grad_norm}});
  }
  const Value count = g.Persistent("update_count", Role::kOptimizerState, {DType::kInt32, {}});
  g.EmitInto({count}, "increment", {count});

  for (size_t i = 0; i < parameters.size(); ++i) {
    const Value p = parameters[i];
    const graph::Tensor parameter = program.tensor(p);
    g.set_scope(parameter.name);
    auto state = [&](std::string_view suffix) {
      return g.Persistent(parameter.name + "." + std::string(suffix), Role::kOptimizerState,
                          parameter.type);
    };
    const double decay = DecayOf(parameter);
    if (options_.algorithm == UpdateOptions::Algorithm::kAdamW) {
      const Value m = state("m"), v = state("v");
      g.EmitInto({p, m, v}, "adamw", {p, gradients[i], m, v, lr, count, clip},
                 {{"beta1", options_.beta1},
                  {"beta2", options_.beta2},
                  {"eps", options_.eps},
                  {"weight_decay", decay}});
    } else {
      const Value momentum = options_.momentum > 0 ? state("momentum") : kNoTensor;
      g.EmitInto({p, momentum}, "sgd", {p, gradients[i], momentum, lr, clip},
                 {{"momentum", options_.momentum},
                  {"nesterov", options_.nesterov},
                  {"weight_decay", decay}});
    }
  }
  return {true, std::to_string(parameters.size()) + " parameters"};
}

}  // namespace plimsoll::optim
