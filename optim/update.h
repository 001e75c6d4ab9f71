// The optimizer: appends gradient norm, clipping and the parameter updates to a program whose
// gradients are complete.
#pragma once

#include <string>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::optim {

struct DecayGroup {
  std::string pattern;  // parameter names; * matches anything: "*.norm_*"
  double weight_decay = 0;
};

struct UpdateOptions {
  enum class Algorithm { kAdamW, kSgd };
  Algorithm algorithm = Algorithm::kAdamW;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0.9;  // SGD; 0 keeps no buffer
  bool nesterov = false;
  // Applies to parameters of rank 2 and more, unless a group (the first that matches) says
  // otherwise.
  double weight_decay = 0.1;
  std::vector<DecayGroup> groups;
  double clip_grad_norm = 1.0;  // global L2 norm; 0 doesn't clip
};

// Adds the input slot "lr" (f32), the metric "grad_norm" (f32, before clipping), the counter of
// applied updates "update_count" (i32), and the moments "PARAMETER.m", "PARAMETER.v" (AdamW) or
// "PARAMETER.momentum" (SGD).
class Update : public graph::Pass {
 public:
  explicit Update(UpdateOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "update"; }
  bool preserves_numerics() const override { return true; }
  graph::PassResult Run(graph::Program& program) override;

 private:
  double DecayOf(const graph::Tensor& parameter) const;

  UpdateOptions options_;
};

}  // namespace plimsoll::optim
