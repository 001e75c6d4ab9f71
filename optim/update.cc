#include "optim/update.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ranges>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "base/glob.h"
#include "graph/builder.h"
#include "graph/step_shape.h"
#include "graph/tensor_ids.h"
#include "ops/data_movement/views.h"
#include "ops/linear/largest_history.h"
#include "ops/optimizer/model_state.h"
#include "ops/optimizer/muon.h"
#include "ops/optimizer/update_gate.h"

namespace plimsoll::optim {

using graph::Builder;
using graph::DType;
using graph::kNoTensor;
using graph::OwnedAs;
using graph::Owner;
using graph::Role;
using graph::TensorId;
using graph::TensorType;
using graph::Value;

namespace {

constexpr std::string_view kLastGradNorm = "last_grad_norm";

bool IsOfAnyObjective(std::string_view name, std::string_view tensor) {
  return name == tensor || name.ends_with("." + std::string(tensor));
}

// Maps an owner's name to the tensor that the owner owns as `as`.
std::map<std::string, Value> OwnedBy(const graph::Program& program, OwnedAs as) {
  std::map<std::string, Value> owned;
  for (const TensorId id : graph::TensorIds(program)) {
    const std::optional<Owner>& owner = program.tensor(id).owner;
    if (owner && owner->as == as) owned[owner->name] = id;
  }
  return owned;
}

// The number of values that are summed into the pending tensor.
int64_t PartsOf(const graph::Merge& merge, const UpdateOptions& options) {
  const bool of_micro_steps = merge.micro_steps == graph::OverMicroSteps::kMean;
  const bool of_ranks = merge.ranks == graph::OverRanks::kMean;
  return (of_micro_steps ? options.micro_steps : 1) * (of_ranks ? options.ranks : 1);
}

// Whether the state is averaged as weights are. Counters are not averaged, and values of single
// ranks are in no checkpoint.
bool HasAverage(const graph::Merge& merge) {
  return merge.ranks == graph::OverRanks::kMean || merge.ranks == graph::OverRanks::kFirst;
}

// The factors that gradients are multiplied by, and whether the step is applied.
struct Gate {
  Value unscale = kNoTensor;  // the factor that undoes the loss scale
  Value factor = kNoTensor;   // the factor of all gradients: clipping times `unscale`
  Value apply = kNoTensor;
};

// The factor that clips the norm to options.clip_grad_norm, times `unscale` if the loss is scaled.
Value EmitClipping(Builder& g, Value norm, Value unscale, const UpdateOptions& options) {
  const Value factor = g.Emit1("clip_factor", {norm}, {{"max_norm", options.clip_grad_norm}});
  return unscale == kNoTensor ? factor : g.Emit1("mul", {factor, unscale}, {}, "factor");
}

Gate EmitNormAndClipping(Builder& g, const std::vector<Value>& gradients,
                         const UpdateOptions& options) {
  const TensorType scalar{DType::kFloat32, {}};
  const Value metric = g.Persistent(options.Named("grad_norm"), Role::kMetric, scalar);
  const TensorType counters{DType::kInt32, {2}};
  Gate gate;
  Value norm = metric;
  ops::UpdateLimits limits;
  if (options.skips) {
    limits = {g.program().Require(options.Named("loss")),
              g.Persistent(options.Named("loss_limit"), Role::kInput, scalar),
              LargestNorm(options)};
  }
  if (options.loss_scale) {
    const Value scale = g.Carried(options.Named("loss_scale"), Role::kState, scalar);
    const Value tracker =
        g.Carried(options.Named("growth_tracker"), Role::kState, {DType::kInt32, {}});
    const Value skipped = g.Carried(options.Named("skipped"), Role::kState, counters);
    const ops::LossScaleStep step =
        ops::EmitLossScaleStep(g, g.Emit1("global_norm", gradients, {}, "scaled_norm"), scale,
                               tracker, skipped, metric, *options.loss_scale, limits);
    norm = step.grad_norm;
    gate.unscale = step.inverse;
    gate.apply = step.apply;
  } else {
    g.EmitInto({norm}, "global_norm", gradients);
    if (options.skips) {
      const graph::Uncounted uncounted(g);
      gate.apply = ops::EmitUpdateGate(g, norm, limits,
                                       g.Carried(options.Named("skipped"), Role::kState, counters));
    }
  }
  using ClipBy = UpdateOptions::ClipBy;
  if (options.clip_grad_norm <= 0 || options.clip_by == ClipBy::kParameter) {
    gate.factor = gate.unscale;
  } else if (options.clip_by == ClipBy::kLastStep) {
    const Value last = g.Persistent(options.Named(kLastGradNorm), Role::kOptimizerState, scalar);
    gate.factor = EmitClipping(g, last, gate.unscale, options);
    ops::CommitState(g, last, norm, 1, gate.apply);
  } else {
    gate.factor = EmitClipping(g, norm, gate.unscale, options);
  }
  return gate;
}

// The factor that clips this gradient by its own norm.
Value EmitClippingOf(Builder& g, Value gradient, Value unscale, const UpdateOptions& options) {
  Value norm = g.Emit1("global_norm", {gradient}, {}, "norm");
  if (unscale != kNoTensor) norm = g.Emit1("mul", {norm, unscale}, {}, "unscaled_norm");
  return EmitClipping(g, norm, unscale, options);
}

double DecayOf(const graph::Tensor& parameter, const UpdateOptions& options) {
  for (const DecayGroup& group : options.groups) {
    if (MatchesGlob(group.pattern, parameter.name)) return group.weight_decay;
  }
  return parameter.type.shape.rank() >= 2 ? options.weight_decay : 0;
}

double LrFactorOf(const graph::Tensor& parameter, const UpdateOptions& options) {
  const auto found = options.lr_factors.find(parameter.name);
  return found == options.lr_factors.end() ? 1 : found->second;
}

ops::StoredWeight WeightOf(Builder& g, Value parameter, const UpdateOptions& options) {
  const graph::Tensor p = g.program().tensor(parameter);
  ops::StoredWeight weight{parameter};
  if (!graph::IsLowPrecision(p.type.dtype) || !options.master_weights) return weight;
  weight.master = p.type.dtype == DType::kBFloat16
                      ? g.Carried(p.name + ".remainder", Role::kMaster,
                                  {DType::kInt16, p.type.shape}, Owner{p.name, OwnedAs::kRemainder})
                      : g.Carried(p.name + ".master", Role::kMaster,
                                  {DType::kFloat32, p.type.shape}, Owner{p.name, OwnedAs::kMaster});
  return weight;
}

ops::StoredMoment MomentOf(Builder& g, Value parameter, const std::string& suffix, OwnedAs as,
                           const UpdateOptions& options) {
  const graph::Tensor p = g.program().tensor(parameter);
  const graph::Shape& shape = p.type.shape;
  const std::string name = p.name + "." + suffix;
  const auto values = [&](const TensorType& type) {
    return g.Persistent(name, Role::kOptimizerState, type, Owner{p.name, as});
  };
  const DType whole = graph::ComputeType(p.type.dtype);
  const bool small = shape.rank() < 2 || shape.elements() < kLeastElementsForInt8;
  if (options.state_dtype == StateDType::kBFloat16 && whole == DType::kFloat32) {
    return {values({DType::kBFloat16, shape})};
  }
  if (options.state_dtype == StateDType::kInt8 && whole == DType::kFloat32 && !small) {
    const ops::Encoding& encoding = EncodingOf(as);
    const Value codes = values(encoding.CodesType(shape));
    return {codes, g.Persistent(name + ".scale", Role::kOptimizerState, encoding.ScalesType(shape),
                                Owner{name, OwnedAs::kScale})};
  }
  return {values({whole, shape})};
}

// The factor by which Muon scales the step of a matrix.
double StepFactorOf(const graph::Shape& matrix, MuonOptions::AdjustLr adjust) {
  const double rows = static_cast<double>(matrix.dim(0)),
               columns = static_cast<double>(matrix.dim(1));
  return adjust == MuonOptions::AdjustLr::kOriginal ? std::sqrt(std::max(1.0, rows / columns))
                                                    : 0.2 * std::sqrt(std::max(rows, columns));
}

// Emits the nodes that orthogonalize each matrix that is stacked in `momentum`. Returns the stacked
// results.
Value EmitOrthogonal(Builder& g, Value momentum, const std::vector<int64_t>& rows,
                     const MuonOptions& options) {
  const int64_t columns = g.shape(momentum).dim(1);
  const bool whole = g.dtype(momentum) == DType::kFloat64;
  std::vector<Value> made;
  int64_t first = 0;
  for (const int64_t height : rows) {
    const graph::Shape shape = {height, columns};
    const Value matrix = rows.size() == 1
                             ? momentum
                             : ops::Slice(g, momentum, first * columns, shape, "muon.matrix");
    first += height;
    made.push_back(ops::NewtonSchulz(g, matrix,
                                     {.steps = options.newton_schulz_steps,
                                      .dtype = whole ? DType::kFloat64 : options.dtype,
                                      .tf32 = options.tf32 && !whole,
                                      .factor = StepFactorOf(shape, options.adjust_lr)}));
  }
  if (first != g.shape(momentum).dim(0)) {
    throw InternalError("update: the matrices stacked in '" + g.scope() + "' have other rows");
  }
  return made.size() == 1 ? made.front() : ops::StackRows(g, std::move(made), "muon.matrices");
}

// Emits Muon's update of a parameter. With decoupled weight decay, it is a step of SGD whose
// gradient is the orthogonal matrix: p ← p − lr · (O + weight_decay · p).
void EmitMuonOf(Builder& g, Value parameter, Value gradient, const std::vector<int64_t>& rows,
                ops::UpdateInputs& common, const UpdateOptions& options) {
  const graph::Tensor p = g.program().tensor(parameter);
  const ops::StoredWeight weight = WeightOf(g, parameter, options);
  const ops::StoredMoment buffer = MomentOf(g, parameter, "momentum", OwnedAs::kMoment, options);
  if (weight.RoundsStochastically(g) || buffer.RoundsStochastically(g)) {
    common.rng = g.Carried(options.rng, Role::kInput, {DType::kInt32, {2}});
  }
  const Value momentum =
      ops::MuonMomentum(g, gradient, buffer, common, {options.momentum, options.nesterov}, "muon");
  const Value step = EmitOrthogonal(g, momentum, rows, options.muon);
  ops::UpdateInputs of_step = common;
  of_step.clip = kNoTensor;  // the momentum was already clipped
  ops::Sgd(g, weight, step, {}, of_step,
           {.weight_decay = DecayOf(p, options), .lr_factor = LrFactorOf(p, options)});
}

void EmitUpdateOf(Builder& g, Value parameter, Value gradient, Value count,
                  ops::UpdateInputs& common, const UpdateOptions& options) {
  using Algorithm = UpdateOptions::Algorithm;
  if (options.algorithm == Algorithm::kMuon) {
    const auto stacked =
        std::ranges::find(options.muon.matrices, g.program().tensor(parameter).name,
                          &MuonOptions::Stacked::parameter);
    if (stacked != options.muon.matrices.end()) {
      return EmitMuonOf(g, parameter, gradient, stacked->rows, common, options);
    }
  }
  const double decay = DecayOf(g.program().tensor(parameter), options);
  const double lr_factor = LrFactorOf(g.program().tensor(parameter), options);
  const ops::StoredWeight weight = WeightOf(g, parameter, options);
  const bool adamw = options.algorithm != Algorithm::kSgd;
  ops::StoredMoment first, second;
  if (adamw) {
    first = MomentOf(g, parameter, "m", OwnedAs::kMoment, options);
    second = MomentOf(g, parameter, "v", OwnedAs::kVariance, options);
  } else if (options.momentum > 0) {
    first = MomentOf(g, parameter, "momentum", OwnedAs::kMoment, options);
  }
  if (weight.RoundsStochastically(g) || first.RoundsStochastically(g) ||
      second.RoundsStochastically(g)) {
    common.rng = g.Carried(options.rng, Role::kInput, {DType::kInt32, {2}});
  }
  if (adamw) {
    ops::AdamW(g, weight, gradient, first, second, count, common,
               {options.beta1, options.beta2, options.eps, decay, lr_factor});
  } else {
    ops::Sgd(g, weight, gradient, first, common,
             {options.momentum, options.nesterov, decay, lr_factor});
  }
}

// Emits the average of a value. A remainder or master, if present, extends the value to float32.
void EmitAverageOf(Builder& g, Value value, Value count, Value apply,
                   const UpdateOptions& options) {
  const graph::Tensor tensor = g.program().tensor(value);
  g.set_scope(tensor.name);
  const Value average = g.Persistent(tensor.name + ".ema", Role::kOptimizerState,
                                     {graph::ComputeType(tensor.type.dtype), tensor.type.shape},
                                     Owner{tensor.name, OwnedAs::kAverage});
  ops::WeightAverage(g, average, WeightOf(g, value, options), count, apply, *options.average);
}

}  // namespace

double LargestNorm(const UpdateOptions& options) {
  // Its square is a quarter of the smallest power of two that float32 and bf16 don't have.
  constexpr double kLargest = 0x1p63;
  const bool clipped = options.clip_by != UpdateOptions::ClipBy::kLastStep &&
                       options.clip_grad_norm > 0 && options.clip_grad_norm <= kLargest;
  const bool squares = options.algorithm != UpdateOptions::Algorithm::kSgd;
  return squares && !clipped ? kLargest : std::numeric_limits<double>::infinity();
}

const ops::Encoding& EncodingOf(OwnedAs moment) {
  return moment == OwnedAs::kVariance ? ops::kSecondMomentEncoding : ops::kMomentEncoding;
}

bool CountsAverages(std::string_view name) { return IsOfAnyObjective(name, kAverageCount); }

bool BeginsAtZero(std::string_view name) {
  return IsOfAnyObjective(name, "skipped") || IsOfAnyObjective(name, kLastGradNorm);
}

graph::PassResult Update::Run(graph::Program& program) {
  const std::map<TensorId, TensorId> gradients = graph::GradientsOf(program);
  if (gradients.empty()) throw InternalError("update: no gradients");

  Builder g(program);
  g.set_phase(graph::Phase::kUpdate);
  g.set_made_by("update");
  ops::UpdateInputs common;
  common.lr = g.Persistent(options_.Named("lr"), Role::kInput, {DType::kFloat32, {}});
  const auto all = gradients | std::views::values;
  const Gate gate = EmitNormAndClipping(g, {all.begin(), all.end()}, options_);
  common.clip = gate.factor;
  common.apply = gate.apply;
  const Value count =
      g.Persistent(options_.Named("update_count"), Role::kOptimizerState, {DType::kInt32, {}});
  ops::Increment(g, count, common.apply);

  const bool clips_each =
      options_.clip_grad_norm > 0 && options_.clip_by == UpdateOptions::ClipBy::kParameter;
  std::vector<Value> averaged;
  for (const auto& [parameter, gradient] : gradients) {
    g.set_scope(program.tensor(parameter).name);
    if (clips_each) common.clip = EmitClippingOf(g, gradient, gate.unscale, options_);
    EmitUpdateOf(g, parameter, gradient, count, common, options_);
    averaged.push_back(parameter);
  }
  const std::map<std::string, Value> histories = OwnedBy(program, OwnedAs::kHistory);
  for (const auto& [name, pending] : OwnedBy(program, OwnedAs::kPending)) {
    g.set_scope(name);
    const graph::Merge merge = *program.tensor(pending).merge;
    const Value state = g.Carried(name, Role::kState, g.type(pending));
    if (const auto history = histories.find(name); history != histories.end()) {
      ops::CommitLargest(g, state, pending, history->second, count, common.apply,
                         options_.history_margin);
      continue;
    }
    ops::CommitState(g, state, pending, PartsOf(merge, options_), common.apply);
    if (HasAverage(merge)) averaged.push_back(state);
  }
  if (options_.average) {
    // Averages come after all updates, so that the nodes of averages are neighbours, share launches
    // and draw the same numbers.
    g.set_scope("");
    const graph::Uncounted uncounted(g);
    const Value averages =
        g.Persistent(options_.Named(kAverageCount), Role::kOptimizerState, {DType::kInt32, {}});
    ops::Increment(g, averages, common.apply);
    for (const Value value : averaged) EmitAverageOf(g, value, averages, common.apply, options_);
  }
  return {true, Counted(gradients.size(), "parameter")};
}

}  // namespace plimsoll::optim
