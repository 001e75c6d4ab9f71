#include "docs/examples/adversarial.h"

#include "models/family.h"
#include "models/layers.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/linear/linear.h"
#include "ops/linear/matmul.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/optimizer/model_state.h"
#include "ops/reductions/reduce.h"

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

// Of points [B,2], [1,2].
Value Mean(Layers& g, Value points) {
  const int64_t rows = g.batch().batch;
  const Value share =
      ops::Constant(g.builder(), {DType::kFloat32, {1, rows}}, 1.0 / static_cast<double>(rows));
  return ops::Matmul(g.builder(), share, points);
}

}  // namespace

// The critic learns to tell 1, real, from 0; the generator learns to be taken for 1, with the
// points that the critic has just judged.
std::vector<Objective> Adversarial::objectives() const {
  if (!only_.empty()) return {{.parameters = {only_ + ".*"}}};
  return {
      {.name = "critic", .parameters = {"critic.*"}, .updates = settings().Int("critic_updates")},
      {.name = "generator", .parameters = {"generator.*"}, .data = "critic"}};
}

Value Adversarial::Fake(Layers& g) const {
  const Value noise = g.Input("noise", DType::kFloat32, {g.batch().batch, kNoise});
  const Scope scope(g.builder(), "generator");
  return Linear(g, "out", Hidden(g, noise, settings().Int("width")), 2, {.init_std = 0.3});
}

Value Adversarial::Center(Layers& g) const {
  const Scope scope(g.builder(), "critic");
  return g.State({.name = "center", .shape = {1, 2}});
}

// What the critic says of points, which are what `label` says.
Adversarial::Verdict Adversarial::Judge(Layers& g, Value points, const char* label,
                                        const char* name) const {
  const Value labels = g.Input(label, DType::kInt32, {g.batch().batch});
  const Scope scope(g.builder(), "critic");
  const Value x = Hidden(g, points, settings().Int("width"));
  const Value table = EmbeddingTable(g, "head", 2, settings().Int("width"), 0.3);
  const Value logits = ops::Linear(g.builder(), x, table, graph::kNoTensor, "logits");
  return {ops::LinearCrossEntropy(g.builder(), x, table, labels, g.TokenWeight(), graph::kNoTensor,
                                  name),
          ops::Confuse(g.builder(), logits, labels)};
}

Model::Outputs Adversarial::Forward(Layers& g, Head) const {
  const std::string& objective = only_.empty() ? g.objective() : only_;
  Outputs outputs;
  if (objective == "generator") {
    const Value points = Fake(g);
    const Verdict fake = Judge(g, points, "real_label", "fooled");
    const int64_t rows = g.batch().batch;
    const Value minus = ops::Constant(g.builder(), {DType::kFloat32, {rows, 1}}, -1);
    const Value off = Add(g, "off", points, ops::Matmul(g.builder(), minus, Center(g)));
    outputs.loss = fake.loss;
    outputs.metrics = {{"fooled", fake.said.right, fake.said.rows, /*larger_is_better=*/true},
                       {"distance", ops::SquaredNorm(g.builder(), off), fake.said.rows}};
    return outputs;
  }
  const Value points = g.Input("real", DType::kFloat32, {g.batch().batch, 2});
  g.UpdateState(Center(g), [&](Value center) {
    return ops::MovingAverage(g.builder(), center, Mean(g, points), 0.1);
  });
  const Verdict real = Judge(g, points, "real_label", "of_real");
  const Verdict fake = Judge(g, Fake(g), "fake_label", "of_fake");
  outputs.loss = Add(g, "loss", real.loss, fake.loss);
  outputs.metrics = {
      {"of_real", real.loss},
      {"of_fake", fake.loss},
      {.name = "accuracy",
       .sum = Add(g, "right", real.said.right, fake.said.right),
       .count = Add(g, "rows", real.said.rows, fake.said.rows),
       .larger_is_better = true},
      {.name = "confusion", .sum = Add(g, "said", real.said.counts, fake.said.counts)}};
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
