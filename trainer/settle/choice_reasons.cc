#include "trainer/settle/choice_reasons.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/function_ref.h"
#include "trainer/settle/knobs.h"

namespace plimsoll::trainer {
namespace {

// Why the chosen plan is none of the variants that make the other choice, which is `other_value`;
// empty: there are none.
std::string WhyNot(FunctionRef<bool(const config::RunConfig&)> other_choice,
                   const char* other_value, StepSolver& solver, const memory::Candidate& chosen,
                   const memory::Budget& budget) {
  std::vector<bool> without;
  for (size_t variant = 0; variant < solver.solver().variants().size(); ++variant) {
    without.push_back(other_choice(solver.ConfigOf(variant)));
  }
  if (std::ranges::find(without, true) == without.end()) return "";
  const std::string with = fmt::format("because with {}", other_value);
  const int64_t least = solver.solver().LeastDeviceBytes(without);
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
  const config::RunConfig& made = solver.ConfigOf(chosen.variant);
  std::vector<std::string> reasons;
  for (const Knob& knob : Techniques()) {
    if (!knob.IsOpen(solver.config())) continue;
    if (knob.IsUsed(made)) {
      const std::string why =
          WhyNot([&](const config::RunConfig& other) { return !knob.IsUsed(other); }, knob.unused(),
                 solver, chosen, budget);
      reasons.push_back(
          fmt::format("{}: {}{}{}", knob.key, knob.used(), why.empty() ? "" : ", ", why));
    } else if (!used_only) {
      const std::string why = solver.WhyLeftOut(knob);
      reasons.push_back(fmt::format(
          "{}: {}, {}", knob.key, knob.unused(),
          why.empty() ? fmt::format("since no plan that fits is faster with {}", knob.used())
                      : "because " + why));
    }
  }
  if (solver.config().memory.host_blocks || !made.memory.host_blocks) return reasons;
  // The same places for all blocks.
  const auto all_blocks = [&](const config::RunConfig& other) {
    return !other.memory.host_blocks && std::ranges::all_of(Techniques(), [&](const Knob& knob) {
      return knob.IsUsed(other) == knob.IsUsed(made);
    });
  };
  reasons.push_back(fmt::format("memory.host_blocks: {}, {}", *made.memory.host_blocks,
                                WhyNot(all_blocks, "all", solver, chosen, budget)));
  return reasons;
}

}  // namespace plimsoll::trainer
