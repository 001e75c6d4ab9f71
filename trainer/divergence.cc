#include "trainer/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/amounts.h"

namespace plimsoll::trainer {

using config::DivergenceAction;

namespace {

constexpr char kAdvice[] = "A smaller optimizer.lr or a longer schedule.warmup may help";

}  // namespace

std::vector<JudgedObjective> JudgedObjectives(const CompiledStep& compiled) {
  std::vector<JudgedObjective> judged;
  for (const models::Objective& objective : compiled.objectives) {
    const optim::UpdateOptions update = compiled.options.UpdateOf(objective.name);
    judged.push_back({objective.name, update.loss_scale.has_value(), optim::LargestNorm(update)});
  }
  return judged;
}

Divergence::Divergence(const config::RunConfig& config, std::vector<JudgedObjective> objectives,
                       int64_t next, const DivergenceState& state)
    : config_(config.divergence),
      amp_(config.amp),
      objectives_(std::move(objectives)),
      good_(next - 1),
      state_(state) {
  state_.objectives.resize(objectives_.size());
  // Snapshots of earlier program versions contain no counts.
  state_.counts.updates += std::max<int64_t>(0, next - state_.counts.steps());
  // The run that wrote the snapshot may have used a larger window than this run, or no window.
  const auto window = config_.spike > 0 ? static_cast<size_t>(config_.window) : 0;
  for (auto& [losses, limits] : state_.objectives) {
    if (losses.size() > window) {
      losses.erase(losses.begin(), losses.end() - static_cast<int64_t>(window));
    }
    if (window == 0) limits.fill(kNoLossLimit);
  }
}

Verdict Divergence::Judge(int64_t step, std::span<const StepMetrics> metrics) {
  Verdict worst;
  bool good = true;
  for (size_t i = 0; i < objectives_.size(); ++i) {
    const double loss = metrics[i].loss;
    good = good && std::isfinite(loss) && loss <= LimitOf(step, i);
    Verdict verdict = Judge(step, i, metrics[i]);
    if (verdict.kind > worst.kind) worst = std::move(verdict);
  }
  if (good) good_ = step;
  Count(metrics, worst);
  return worst;
}

// A step with several objectives counts as an update if any objective was updated.
void Divergence::Count(std::span<const StepMetrics> metrics, const Verdict& verdict) {
  const bool skipped =
      std::ranges::all_of(metrics, [](const StepMetrics& one) { return one.skipped_in_a_row > 0; });
  int64_t StepCounts::*const outcome = !skipped                            ? &StepCounts::updates
                                       : verdict.kind == Verdict::kSkipped ? &StepCounts::spikes
                                                                           : &StepCounts::overflows;
  ++(state_.counts.*outcome);
}

void Divergence::PassOver(int64_t step) {
  ++state_.counts.without_targets;
  for (LossHistory& history : state_.objectives) {
    history.limits[static_cast<size_t>(step % 2)] = Limit(history.losses);
  }
}

Verdict Divergence::Judge(int64_t step, size_t objective, const StepMetrics& metrics) {
  const std::string& name = objectives_[objective].name;
  const bool overflow = objectives_[objective].loss_is_scaled && !std::isfinite(metrics.grad_norm);
  const std::string problem = overflow ? "" : Problem(step, objective, metrics);
  auto& [losses, limits] = state_.objectives[objective];
  if (problem.empty() && !overflow && config_.spike > 0) {
    losses.push_back(static_cast<float>(metrics.loss));
    if (std::ssize(losses) > config_.window) losses.erase(losses.begin());
  }
  limits[static_cast<size_t>(step % 2)] = Limit(losses);  // the limit for the step after the next

  const std::string where =
      name.empty() ? fmt::format("step {}", step) : fmt::format("step {}, {}", step, name);
  if (overflow && metrics.skipped_in_a_row >= amp_.max_skips) {
    const bool fixed = amp_.loss_scale == config::LossScale::kStatic;
    const std::string scale =
        fixed ? fmt::format(
                    "with the loss scale {:g}, which stays (amp.loss_scale: static); "
                    "stopped. A smaller amp.init_scale, or amp.loss_scale: dynamic, will "
                    "help",
                    metrics.loss_scale)
              : fmt::format(
                    "the loss scale being down to {:g} (amp.min_scale {:g}); stopped. A "
                    "smaller optimizer.lr, a longer schedule.warmup or amp.dtype: bf16 may "
                    "help",
                    metrics.loss_scale, amp_.min_scale);
    return {Verdict::kStop,
            fmt::format("{}: gradients overflowed in {} in a row (amp.max_skips), {}", where,
                        Counted(metrics.skipped_in_a_row, "step"), scale)};
  }
  if (problem.empty()) return {};
  return Answer(fmt::format("{}: {}", where, problem), metrics);
}

std::string Divergence::Problem(int64_t step, size_t objective, const StepMetrics& metrics) const {
  const bool loss = std::isfinite(metrics.loss), norm = std::isfinite(metrics.grad_norm);
  if (!loss && !norm) {
    return fmt::format("loss {} and gradient norm {} are not finite", metrics.loss,
                       metrics.grad_norm);
  }
  if (!loss) return fmt::format("loss {} is not finite", metrics.loss);
  if (!norm) {
    return fmt::format("gradient norm {} is not finite (loss {:.4g})", metrics.grad_norm,
                       metrics.loss);
  }
  if (metrics.grad_norm > objectives_[objective].largest_norm) {
    return fmt::format(
        "gradient norm {:.4g} is beyond {:.4g}, where the squares of gradients overflow in AdamW's "
        "second moments (loss {:.4g})",
        metrics.grad_norm, objectives_[objective].largest_norm, metrics.loss);
  }
  const float limit = LimitOf(step, objective);
  if (metrics.loss <= limit) return "";
  return fmt::format(
      "loss {:.4f} is a spike, beyond {:.4f}: {:g} standard deviations (divergence.spike) above "
      "the "
      "mean of {}",
      metrics.loss, limit, config_.spike, Counted(config_.window, "loss"));
}

Verdict Divergence::Answer(const std::string& problem, const StepMetrics& metrics) const {
  switch (config_.action) {
    case DivergenceAction::kStop:
      break;
    case DivergenceAction::kSkip:
      if (metrics.skipped_in_a_row < config_.max_skips) {
        return {Verdict::kSkipped, problem + "; its update was skipped"};
      }
      return {Verdict::kStop, fmt::format("{}; skipped like the steps before it, {} in a row "
                                          "(divergence.max_skips); stopped. {}",
                                          problem, metrics.skipped_in_a_row, kAdvice)};
    case DivergenceAction::kRollback:
      if (state_.rollbacks < config_.max_rollbacks) return {Verdict::kRollBack, problem};
      return {Verdict::kStop, fmt::format("{}; stopped after {} "
                                          "(divergence.max_rollbacks). {}",
                                          problem, Counted(state_.rollbacks, "rollback"), kAdvice)};
  }
  return {Verdict::kStop, fmt::format("{}; stopped. {}", problem, kAdvice)};
}

void Divergence::GoBack(int64_t step, const DivergenceState& then) {
  good_ = std::min(good_, step);
  state_.objectives = then.objectives;
  state_.counts = then.counts;
  state_.objectives.resize(objectives_.size());
  state_.lr_factor *= config_.lr_factor;
  ++state_.rollbacks;
}

// The limit depends on good losses alone, so that a spike does not raise it.
float Divergence::Limit(const std::vector<float>& losses) const {
  if (config_.spike == 0 || std::ssize(losses) < config_.window) return kNoLossLimit;
  const auto count = static_cast<double>(losses.size());
  double mean = 0, variance = 0;
  for (const float loss : losses) mean += loss / count;
  for (const float loss : losses) variance += (loss - mean) * (loss - mean) / count;
  return std::min(kNoLossLimit, static_cast<float>(mean + config_.spike * std::sqrt(variance)));
}

}  // namespace plimsoll::trainer
