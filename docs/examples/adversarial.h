// Two networks that train each other (Goodfellow et al. 2014): a generator turns noise into points
// of the plane, and a critic tells them from real ones. No tokens, two losses, two optimizers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/model.h"
#include "ops/loss/confusion.h"

namespace plimsoll::models {

// `width` is that of the layers between. Inputs of a batch of B:
//
//   real        f32[B,2]   critic: real points
//   noise       f32[B,8]   what fake points are made of
//   real_label  i32[B]     all 1
//   fake_label  i32[B]     critic: all 0
//
// Metrics: of the critic its losses `of_real` and `of_fake`, which are parts of a sum, its
// `accuracy`, and what it took for what, `confusion`; of the generator how many of its points were
// taken for real, `fooled`, and their squared distance from where real points lie, `distance`.
// That is a state, critic.center f32[1,2]: the running mean of the real points.
class Adversarial final : public Model {
 public:
  static constexpr int64_t kNoise = 8;

  // `only`, "critic" or "generator", makes a model of that objective alone, which has no name.
  explicit Adversarial(Settings settings, std::string only = "")
      : Model("adversarial", std::move(settings)), only_(std::move(only)) {}

  std::vector<Objective> objectives() const override;

 protected:
  Outputs Forward(Layers& g, Head head) const override;

 private:
  struct Verdict {
    graph::Value loss;
    ops::Confusion said;
  };
  graph::Value Fake(Layers& g) const;
  graph::Value Center(Layers& g) const;
  Verdict Judge(Layers& g, graph::Value points, const char* label, const char* name) const;

  std::string only_;
};

}  // namespace plimsoll::models
