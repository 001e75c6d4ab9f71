#include "docs/examples/adversarial.h"

#include "graph/objective.h"
#include "models/family.h"
#include "models/layers.h"
#include "ops/linear_cross_entropy.h"

namespace plimsoll::models {

using graph::DType;
using graph::Scope;
using graph::Value;

namespace {

// Two layers of gelu, [B,…] → [B,width].
Value Hidden(Layers& g, Value x, int64_t width) {
  for (int64_t layer = 0; layer < 2; ++layer) {
    const Scope block(g.builder(), "block." + std::to_string(layer));
    x = Linear(g, "fc", x, width, {.init_std = 0.3});
    x = Gelu(g, x, Activation::kGeluTanh);
  }
  return x;
}

}  // namespace

// The critic learns to tell 1, real, from 0; the generator learns to be taken for 1.
std::vector<Objective> Adversarial::objectives() const {
  if (!only_.empty()) return {{.parameters = {only_ + ".*"}}};
  return {
      {.name = "critic", .parameters = {"critic.*"}, .updates = settings().Int("critic_updates")},
      {.name = "generator", .parameters = {"generator.*"}}};
}

Value Adversarial::Fake(Layers& g) const {
  const Value noise = g.Input("noise", DType::kFloat32, {g.batch().batch, kNoise});
  const Scope scope(g.builder(), "generator");
  return Linear(g, "out", Hidden(g, noise, settings().Int("width")), 2, {.init_std = 0.3});
}

// The loss of points that are taken for what `label` says.
Value Adversarial::Judge(Layers& g, Value points, const char* label, const char* name) const {
  const Value labels = g.Input(label, DType::kInt32, {g.batch().batch});
  const std::string weight = graph::OfObjective(g.objective(), "token_weight");
  const Scope scope(g.builder(), "critic");
  const Value x = Hidden(g, points, settings().Int("width"));
  const Value table = EmbeddingTable(g, "head", 2, settings().Int("width"), 0.3);
  return ops::LinearCrossEntropy(g.builder(), x, table, labels,
                                 g.Input(weight, DType::kFloat32, {}), name);
}

Model::Outputs Adversarial::Forward(Layers& g, Head) const {
  const std::string& objective = only_.empty() ? g.objective() : only_;
  Outputs outputs;
  if (objective == "generator") {
    outputs.loss = Judge(g, Fake(g), "real_label", "fooled");
    return outputs;
  }
  const Value real = g.Input("real", DType::kFloat32, {g.batch().batch, 2});
  const Value of_real = Judge(g, real, "real_label", "of_real");
  outputs.loss = Add(g, "loss", of_real, Judge(g, Fake(g), "fake_label", "of_fake"));
  return outputs;
}

namespace {

const FamilyRegistration kFamily({
    .name = "adversarial",
    .settings = {{.name = "width",
                  .doc = "Width of the layers between.",
                  .required = "give the width of the layers",
                  .min = 1,
                  .max = 1e7},
                 {.name = "critic_updates",
                  .doc = "Updates of the critic for each of the generator.",
                  .default_value = int64_t{1},
                  .min = 1,
                  .max = 1e5}},
    .make = [](const Settings& s) { return std::make_unique<Adversarial>(s); },
});

}  // namespace
}  // namespace plimsoll::models
