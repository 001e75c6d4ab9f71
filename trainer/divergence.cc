#include "trainer/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace plimsoll::trainer {

using config::DivergenceAction;

namespace {

constexpr char kAdvice[] = "A smaller optimizer.lr or a longer schedule.warmup may help";

}  // namespace

Divergence::Divergence(const config::RunConfig& config, bool loss_is_scaled, int64_t next,
                       const DivergenceState& state)
    : config_(config.divergence),
      amp_(config.amp),
      loss_is_scaled_(loss_is_scaled),
      good_(next - 1),
      state_(state) {
  // The run that saved may have looked at more losses, or at none.
  const auto window = config_.spike > 0 ? static_cast<size_t>(config_.window) : 0;
  if (state_.losses.size() > window) {
    state_.losses.erase(state_.losses.begin(), state_.losses.end() - static_cast<int64_t>(window));
  }
  if (window == 0) state_.limits.fill(kNoLossLimit);
}

Verdict Divergence::Judge(int64_t step, const StepMetrics& metrics) {
  const bool overflow = loss_is_scaled_ && !std::isfinite(metrics.grad_norm);
  const std::string problem = overflow ? "" : Problem(step, metrics);
  if (std::isfinite(metrics.loss) && metrics.loss <= LimitOf(step)) good_ = step;
  if (problem.empty() && !overflow && config_.spike > 0) {
    state_.losses.push_back(static_cast<float>(metrics.loss));
    if (std::ssize(state_.losses) > config_.window) state_.losses.erase(state_.losses.begin());
  }
  state_.limits[static_cast<size_t>(step % 2)] = Limit();  // of the step after the next

  if (overflow && metrics.skipped_in_a_row >= amp_.max_skips) {
    return {Verdict::kStop,
            fmt::format("step {}: gradients overflowed in {} steps in a row (amp.max_skips), the "
                        "loss scale being down to {:g} (amp.min_scale {:g}); stopped. A smaller "
                        "optimizer.lr, a longer schedule.warmup or amp.dtype: bf16 may help",
                        step, metrics.skipped_in_a_row, metrics.loss_scale, amp_.min_scale)};
  }
  if (problem.empty()) return {};
  return Answer(fmt::format("step {}: {}", step, problem), metrics);
}

std::string Divergence::Problem(int64_t step, const StepMetrics& metrics) const {
  if (!std::isfinite(metrics.loss) || !std::isfinite(metrics.grad_norm)) {
    return fmt::format("loss {} and gradient norm {} are not finite", metrics.loss,
                       metrics.grad_norm);
  }
  const float limit = LimitOf(step);
  if (metrics.loss <= limit) return "";
  return fmt::format(
      "loss {:.4f} is a spike, beyond {:.4f}: {:g} standard deviations (divergence.spike) above "
      "the "
      "mean of {} losses",
      metrics.loss, limit, config_.spike, config_.window);
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
      return {Verdict::kStop, fmt::format("{}; stopped after {} rollbacks "
                                          "(divergence.max_rollbacks). {}",
                                          problem, state_.rollbacks, kAdvice)};
  }
  return {Verdict::kStop, fmt::format("{}; stopped. {}", problem, kAdvice)};
}

void Divergence::GoBack(int64_t step, const DivergenceState& then) {
  good_ = std::min(good_, step);
  state_.losses = then.losses;
  state_.limits = then.limits;
  state_.lr_factor *= config_.lr_factor;
  ++state_.rollbacks;
}

// Of good losses alone: a spike must not make room for the next one.
float Divergence::Limit() const {
  const size_t count = state_.losses.size();
  if (config_.spike == 0 || std::ssize(state_.losses) < config_.window) return kNoLossLimit;
  double mean = 0, variance = 0;
  for (const float loss : state_.losses) mean += loss / static_cast<double>(count);
  for (const float loss : state_.losses) {
    variance += (loss - mean) * (loss - mean) / static_cast<double>(count);
  }
  return std::min(kNoLossLimit, static_cast<float>(mean + config_.spike * std::sqrt(variance)));
}

}  // namespace plimsoll::trainer
