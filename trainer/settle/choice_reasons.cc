#include "trainer/settle/choice_reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/bytes.h"
#include "trainer/settle/alternatives.h"

namespace plimsoll::trainer {
namespace {

// Of a key that the chosen plan uses; empty: no other plan leaves it out.
std::string WhyUsed(const OpenKey& key, StepSolver& solver, const memory::Candidate& chosen,
                    const memory::Budget& budget) {
  std::vector<bool> without(solver.solver().variants().size());
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t variant = 0; variant < without.size(); ++variant) {
    without[variant] = !key.used(solver.ConfigOf(variant));
    if (!without[variant]) continue;
    least = std::min(least, solver.solver().BoundsOf(variant).device_bytes);
  }
  if (std::ranges::find(without, true) == without.end()) return "";
  const std::string with = fmt::format("because with {}", key.unused_value);
  if (least > budget.device) {
    return fmt::format("{} what stays in memory all through the step takes {} at least", with,
                       FormatBytes(budget.profile.ProcessBytes(least)));
  }
  const memory::Candidate* const other = solver.solver().Fastest(budget, without);
  if (other == nullptr) return with + " no plan fits";
  if (other->exact->seconds <= chosen.exact->seconds) return "which is as fast";
  return fmt::format("{} the fastest plan that fits takes {:.1f} ms", with,
                     other->exact->seconds * 1e3);
}

}  // namespace

std::vector<std::string> ChoiceReasons(StepSolver& solver, const memory::Candidate& chosen,
                                       const memory::Budget& budget, bool used_only) {
  std::vector<std::string> reasons;
  for (const OpenKey& key : OpenKeys()) {
    if (!key.open(solver.config())) continue;
    if (key.used(solver.ConfigOf(chosen.variant))) {
      const std::string why = WhyUsed(key, solver, chosen, budget);
      reasons.push_back(
          fmt::format("{}: {}{}{}", key.name, key.used_value, why.empty() ? "" : ", ", why));
    } else if (!used_only) {
      const std::string why = solver.WhyLeftOut(key);
      reasons.push_back(fmt::format(
          "{}: {}, {}", key.name, key.unused_value,
          why.empty() ? fmt::format("since no plan that fits is faster with {}", key.used_value)
                      : "because " + why));
    }
  }
  return reasons;
}

}  // namespace plimsoll::trainer
