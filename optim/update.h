// The optimizer: appends gradient norm, clipping and the parameter updates to a program whose
// gradients are complete.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "graph/objective.h"
#include "graph/pass.h"
#include "ops/loss_scale.h"
#include "ops/optimizer.h"

namespace plimsoll::optim {

struct DecayGroup {
  std::string pattern;  // parameter names; * matches anything: "*.norm_*"
  double weight_decay = 0;
};

enum class StateDType {
  kFloat32,
  kBFloat16,  // rounded stochastically
  kInt8,      // 8-bit codes with a scale for each block of 256
};

// With StateDType::kInt8 the moments of vectors and of parameters with fewer elements than this
// stay float32: they are few, and norms and biases are sensitive. Dettmers et al. 2022, "8-bit
// Optimizers via Block-wise Quantization", do the same.
inline constexpr int64_t kLeastElementsForInt8 = 4096;

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
  std::vector<DecayGroup> groups = {};
  double clip_grad_norm = 1.0;  // global L2 norm; 0 doesn't clip
  // A parameter of 16 bits has what makes it a float32 beside it. Without, a bf16 parameter is
  // rounded stochastically; an f16 one needs it.
  bool master_weights = true;
  StateDType state_dtype = StateDType::kFloat32;
  // Whose update it is: all tensors below that belong to no parameter have its name
  // (graph/objective.h).
  std::string objective = "";
  // The input slot i32[2] that stochastic rounding draws from.
  std::string rng = "rng";
  // The gradients are those of the loss times the carried "loss_scale".
  std::optional<ops::LossScaleOptions> loss_scale = std::nullopt;
  // Steps whose loss or gradients are not finite, or whose loss is beyond a limit, are skipped.
  bool skips = false;
  // States of the model that the step has made something new of (Role::kPending), with the number
  // of ranks of whose parts that is the sum. An update that is applied takes it over.
  std::map<std::string, int64_t> states = {};

  // "lr" of the objective.
  std::string Named(std::string_view tensor) const { return graph::OfObjective(objective, tensor); }
};

// How a parameter is stored is read off its type in the program. Adds
//   "lr" f32[], input;  "grad_norm" f32[], metric: before clipping, unscaled
//   "update_count" i32[]: applied updates
//   "P.m", "P.v" (AdamW) or "P.momentum" (SGD): moments, with "….scale" f32 when they are u8
//   "P.remainder" i16 of a bf16 parameter P, "P.master" f32 of an f16 one: with master weights
//   "loss_scale" f32[], "growth_tracker" i32[], "skipped" i32[2]: with loss scaling. A step whose
//   gradients overflowed leaves parameters, moments, masters and the counter untouched.
//   "skipped" i32[2], and "loss_limit" f32[], input: with `skips`; the program has the "loss" of
//   the whole step "rng" i32[2], input (or as UpdateOptions::rng says): when something is rounded
//   stochastically
class Update : public graph::Pass {
 public:
  explicit Update(UpdateOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "update"; }
  graph::PassResult Run(graph::Program& program) override;

 private:
  double DecayOf(const graph::Tensor& parameter) const;
  ops::StoredWeight WeightOf(graph::Builder& g, graph::Value parameter) const;
  ops::StoredMoment MomentOf(graph::Builder& g, graph::Value parameter,
                             const std::string& suffix) const;
  void EmitUpdateOf(graph::Builder& g, graph::Value parameter, graph::Value gradient,
                    graph::Value count, ops::UpdateInputs& common) const;

  UpdateOptions options_;
};

}  // namespace plimsoll::optim
