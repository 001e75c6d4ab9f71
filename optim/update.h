// The optimizer: appends gradient norm, clipping and the parameter updates to a program whose
// gradients are complete.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/objective.h"
#include "graph/pass.h"
#include "ops/optimizer/loss_scale.h"
#include "ops/optimizer/optimizer.h"
#include "ops/optimizer/weight_average.h"

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

// With StateDType::kInt8, moments of vectors and of parameters with fewer elements than this number
// are float32: such moments take few bytes, and norms and biases are sensitive. Dettmers et al.
// 2022, "8-bit Optimizers via Block-wise Quantization", do the same.
inline constexpr int64_t kLeastElementsForInt8 = 4096;

// Options of Muon (ops/optimizer/muon.h). AdamW updates the parameters that are not in `matrices`.
struct MuonOptions {
  // Matrices [rows_i, columns] that are stacked in one parameter, as q, k and v are. Each matrix is
  // orthogonalized separately.
  struct Stacked {
    std::string parameter;
    std::vector<int64_t> rows;
    bool operator==(const Stacked&) const = default;
  };
  std::vector<Stacked> matrices = {};
  int64_t newton_schulz_steps = 5;
  // The factor of the step of a matrix [rows, columns].
  enum class AdjustLr {
    kOriginal,       // √max(1, rows / columns)
    kMatchRmsAdamW,  // 0.2 · √max(rows, columns): elements change as much as with AdamW
  };
  AdjustLr adjust_lr = AdjustLr::kMatchRmsAdamW;
  // The type of the matrix products. Products of float64 matrices are float64 in any case.
  graph::DType dtype = graph::DType::kFloat32;
  bool tf32 = false;
};

struct UpdateOptions {
  enum class Algorithm { kAdamW, kSgd, kMuon };
  Algorithm algorithm = Algorithm::kAdamW;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0.9;  // for SGD, where 0 means no momentum buffer, and for Muon
  bool nesterov = false;
  MuonOptions muon = {};
  // Weight decay of parameters of rank 2 and more that match no group. A parameter has the weight
  // decay of the first group that it matches.
  double weight_decay = 0.1;
  std::vector<DecayGroup> groups = {};
  // Maps a parameter's name to the factor of its learning rate. Parameters that are not in the map
  // have the factor 1.
  std::map<std::string, double> lr_factors = {};
  double clip_grad_norm = 1.0;  // the largest L2 norm of gradients; 0 means no clipping
  // The gradients whose norm is clipped: all gradients of the step; each parameter's gradient; or
  // all gradients of the last applied update, whose norm is known without waiting for all
  // gradients.
  enum class ClipBy { kStep, kParameter, kLastStep };
  ClipBy clip_by = ClipBy::kStep;
  // Whether every 16-bit parameter has state that extends it to float32. Without such state a bf16
  // parameter is rounded stochastically. An f16 parameter requires such state.
  bool master_weights = true;
  StateDType state_dtype = StateDType::kFloat32;
  // The name of the objective that is updated (graph/objective.h). It is part of the names of all
  // tensors of the update that belong to no parameter.
  std::string objective = "";
  // The name of the input i32[2] from which stochastic rounding draws random numbers.
  std::string rng = "rng";
  // If set, the gradients have been multiplied by the carried "loss_scale".
  std::optional<ops::LossScaleOptions> loss_scale = std::nullopt;
  // Whether steps are skipped whose loss or gradients are not finite, whose loss is above a limit,
  // or whose gradients are above LargestNorm.
  bool skips = false;
  // The numbers of micro-steps of a step and of data ranks, over which states are averaged
  // (graph::Merge).
  int64_t micro_steps = 1;
  int64_t ranks = 1;
  // A state that has a history becomes the largest number of its history, times this factor.
  double history_margin = 1;
  // Averages of the weights over the applied updates.
  std::optional<ops::WeightAverageOptions> average = std::nullopt;

  // The name of the objective's tensor, such as "lr".
  std::string Named(std::string_view tensor) const { return graph::OfObjective(objective, tensor); }
};

// The largest norm of all gradients of a step whose squares are finite in AdamW's second moments.
// An element of a moment that overflows stays infinite, and its weight never changes again.
// Infinite if the gradients are clipped before they are squared, or not squared.
double LargestNorm(const UpdateOptions& options);

// How a moment is kept in 8 bits.
const ops::Encoding& EncodingOf(graph::OwnedAs moment);

// The name of an objective's counter of the updates that are in its averages.
inline constexpr std::string_view kAverageCount = "ema_count";
// Whether `name` is that of the kAverageCount counter of any objective.
bool CountsAverages(std::string_view name);

// Whether `name` is that of state that begins at zero and exists only with some options of an
// update: "skipped" or "last_grad_norm" of any objective. A resumed run may have such state even if
// the snapshot does not, and vice versa.
bool BeginsAtZero(std::string_view name);

// The pass that appends the update. A parameter is stored in its type in the program. If the update
// is applied, each state with a pending value (graph::OwnedAs::kPending) takes that value, through
// its history if it has one (ops/linear/largest_history.h). Adds
//   "lr" f32[], input;  "grad_norm" f32[], metric: before clipping, unscaled
//   "update_count" i32[]: applied updates
//   with ClipBy::kLastStep: "last_grad_norm" f32[], 0 before the first update
//   "P.m", "P.v" (AdamW) or "P.momentum" (SGD, Muon): moments, with "….scale" when they are codes
//   with master weights: "P.remainder" i16 of a bf16 parameter P, "P.master" f32 of an f16 one
//   with loss scaling: "loss_scale" f32[], "growth_tracker" i32[], "skipped" i32[2]. A step whose
//   gradients overflowed changes no parameter, moment, master or counter.
//   with `average`: "P.ema" f32[] (f64 of an f64 parameter) and "STATE.ema" f32: averages; and
//   "ema_count" i32[]: the number of updates in them
//   with `skips`: "skipped" i32[2], and "loss_limit" f32[], input; the program must have the "loss"
//   of the whole step
//   when something is rounded stochastically: "rng" i32[2], input (or as UpdateOptions::rng says)
// Muon's update of a matrix is a chain of nodes in the parameter's scope:
//
//   %P.muon, %P.momentum = muon_momentum(%P.grad, %P.momentum, …)
//   %P.muon.norm = global_norm(%P.muon)                of each stacked matrix, a slice of %P.muon
//   %P.muon.x = divide_by_norm(%P.muon, %P.muon.norm)
//   %P.muon.gram = matmul(%P.muon.x, %P.muon.x)        Newton-Schulz (ops/optimizer/muon.h)
//   …
//   %P = sgd(%P, %P.muon.x.6, …)                       without momentum
class Update : public graph::Pass {
 public:
  explicit Update(UpdateOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "update"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kDifferentiated},
            .gives = {graph::Fact::kUpdated},
            .spoils = graph::FactsFrom(graph::Fact::kDivided)};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  UpdateOptions options_;
};

}  // namespace plimsoll::optim
