// A small model that carries a state of each kind.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "models/layers.h"
#include "models/model.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/linear/matmul.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/optimizer/model_state.h"
#include "ops/reductions/reduce.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// One layer of logits over points x f32[B,3], each minus where points have been so far. States:
//
//   norm.mean   f32[1,3]  averaged among ranks: running mean of the points, from 0.5 on
//   norm.seen   f32[]     alike: micro-steps whose steps were applied
//   norm.own    f32[1,3]  each rank's own: sum of the means of its micro-batches
//
// Metrics "mean", "seen" and "own" tell what a micro-step reads of them, "mean_total" and
// "own_total" the sum of their elements.
class Remembering final : public models::Model {
 public:
  static constexpr int64_t kWidth = 3, kClasses = 4;
  static constexpr double kMomentum = 0.25;

  explicit Remembering(
      models::StateInfo::OnOtherRanks on_other_ranks = models::StateInfo::kMeanOfAll)
      : Model("remembering"), on_other_ranks_(on_other_ranks) {}

  std::vector<models::Sharding> sharding() const override {
    return {{"head.weight", models::Sharding::kVocabulary}};
  }

 protected:
  Outputs Forward(models::Layers& g, models::Head) const override {
    using graph::DType;
    using graph::Value;
    graph::Builder& b = g.builder();
    const int64_t rows = g.batch().batch;
    const Value x = g.Input("x", DType::kFloat32, {rows, kWidth});
    const auto constant = [&](graph::Shape shape, double value) {
      return ops::Constant(b, {DType::kFloat32, shape}, value);
    };
    Value mean, own, seen;
    {
      const graph::Scope scope(b, "norm");
      mean = g.State({.name = "mean", .shape = {1, kWidth}, .initial = 0.5f});
      own = g.State({.name = "own",
                     .shape = {1, kWidth},
                     .merge = {.ranks = graph::OverRanks::kOwn},
                     .on_other_ranks = on_other_ranks_});
      seen = g.State({.name = "seen", .merge = {.ranks = graph::OverRanks::kSame}});
    }
    const Value share = constant({1, rows}, 1.0 / static_cast<double>(rows));
    const Value now = ops::Matmul(b, share, x, false, false, "now");
    // In two steps of half the momentum, as a layer that is applied twice would.
    for (int i = 0; i < 2; ++i) {
      g.UpdateState(mean, [&](Value m) { return ops::MovingAverage(b, m, now, kMomentum / 2); });
    }
    g.UpdateState(own, [&](Value sum) { return Add(g, "own_sum", sum, now); });
    g.UpdateState(seen, [&](Value count) { return Add(g, "count", count, constant({}, 1)); });

    const Value minus = constant({rows, 1}, -1);
    const Value centered =
        Add(g, "centered", x, ops::Matmul(b, minus, mean, false, false, "spread"));
    const Value hidden =
        Gelu(g, Linear(g, "fc", centered, 8, {.init_std = 0.5}), models::Activation::kGeluTanh);
    const Value table = EmbeddingTable(g, "head", kClasses, 8, 0.5);
    const Value label = g.Input("label", DType::kInt32, {rows});
    Outputs outputs;
    outputs.loss =
        ops::LinearCrossEntropy(b, hidden, table, label, g.TokenWeight(), graph::kNoTensor, "loss");
    const Value one = constant({}, 1);
    outputs.metrics = {{"mean", mean, one},
                       {"seen", seen, one},
                       {"own", own, one},
                       {"mean_total", ops::Sum(b, mean), one},
                       {"own_total", ops::Sum(b, own), one}};
    return outputs;
  }

 private:
  models::StateInfo::OnOtherRanks on_other_ranks_;
};

inline std::unique_ptr<models::Model> MakeRemembering() {
  return models::WithParameters<models::Model>(std::make_unique<Remembering>());
}

// The points of a draw, `rows` of kWidth, which depend on its number alone; every label is 1.
inline void FillPoints(const Session& session, int64_t draw) {
  uint32_t random = static_cast<uint32_t>(draw) * 7919 + 12345;
  for (float& value : session.slot("x").values<float>()) {
    random = random * 1664525 + 1013904223;
    value = static_cast<float>(random >> 8) * 0x1p-24f * 2 + static_cast<float>(draw % 3);
  }
  for (int32_t& label : session.slot("label").values<int32_t>()) label = 1;
}

// The mean of the points that lie in the slot.
inline std::vector<double> MeanOfPoints(const Session& session) {
  const std::span<const float> x = session.slot("x").values<float>();
  std::vector<double> mean(Remembering::kWidth, 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    mean[i % mean.size()] += x[i] / static_cast<double>(x.size() / mean.size());
  }
  return mean;
}

}  // namespace plimsoll::trainer
