#include "models/model.h"

#include <fmt/format.h>

#include <set>

#include "base/error.h"
#include "models/gpt2.h"
#include "models/layers.h"
#include "models/llama.h"

namespace plimsoll::models {

using graph::Value;

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const ParameterInfo& parameter : parameters_) count += parameter.shape.elements();
  return count;
}

Model::Outputs Model::Build(graph::Builder& builder, Batch batch, Head head, bool training,
                            std::string_view objective) const {
  if (batch.sequence > spec_.max_sequence) {
    throw UserError(
        fmt::format("model.sequence: {} tokens, but the model has {} positions: "
                    "shorten it or raise model.max_sequence",
                    batch.sequence, spec_.max_sequence));
  }
  Layers layers(builder, batch, training ? spec_.dropout : 0.0, objective);
  return Forward(layers, head);
}

std::unique_ptr<Model> MakeModel(const ModelSpec& spec) {
  if (const auto problem = FindProblem(spec)) {
    throw UserError("model." + problem->field + ": " + problem->reason);
  }
  if (spec.family == Family::kGpt2) return WithParameters(std::make_unique<Gpt2>(spec));
  return WithParameters(std::make_unique<Llama>(spec));
}

// The forward pass is the one place that names parameters.
std::unique_ptr<Model> WithParameters(std::unique_ptr<Model> model) {
  std::set<std::string> known;
  for (const Objective& objective : model->objectives()) {
    graph::Program program("parameters");
    graph::Builder builder(program);
    Layers layers(builder, {.batch = 1, .sequence = 1}, 0.0, objective.name);
    model->Forward(layers, Head::kLoss);
    for (const ParameterInfo& parameter : layers.parameters()) {
      if (known.insert(parameter.name).second) model->parameters_.push_back(parameter);
    }
  }
  return model;
}

std::string ForLayer(std::string_view pattern, int64_t layer) {
  std::string name(pattern);
  if (const size_t star = name.find('*'); star != std::string::npos) {
    name.replace(star, 1, std::to_string(layer));
  }
  return name;
}

}  // namespace plimsoll::models
