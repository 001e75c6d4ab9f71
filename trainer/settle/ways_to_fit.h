// What would make a run fit that exceeds a limit: the smallest plan, and changes to the run file.
// Refusals of memory.budget, the plan for a GPU that is too small, and starting files all take
// their numbers from here.
//
// All is planned by built-in rates, so that every command names the same bytes. Changes are looked
// at by a coarse search first, which tries few options for each block: what fits by it fits. Only
// those that are named, and the closest one where none is enough, are searched in full, so a change
// that makes a run fit with the full search alone is found when it is the closest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memory/plan.h"
#include "memory/solver.h"
#include "trainer/config/run_config.h"
#include "trainer/settle/step_solver.h"

namespace plimsoll::trainer {

// Bytes of the device's memory and of the host's: what the process of a plan needs, or limits.
struct Needs {
  int64_t process = 0, host = 0;

  bool Within(const Needs& limits) const {
    return process <= limits.process && host <= limits.host;
  }
};
// The limits of a budget.
Needs LimitsOf(const memory::Budget& budget);

// The run's smallest plan within the limit of the host.
struct SmallestPlan {
  Needs needs;
  memory::MemoryPlan plan;
};
// `solver`: any of the run; it is searched itself where its rates are the built-in ones.
SmallestPlan SmallestOf(StepSolver& solver, const Needs& limits);

// A change to a run file, and what the run's smallest plan needs with it.
struct Way {
  std::string text;               // "train.micro_batch: 1 with train.accumulate: 16"
  std::vector<std::string> sets;  // the same for --set: "train.micro_batch=1"
  Needs needs;
};

struct WaysToFit {
  bool of_device = true;        // which limit the needs of a way are compared with in a text
  std::vector<Way> single;      // each is enough by itself; those that change least come first
  std::optional<Way> together;  // where no single change is enough: all that changes no number
  std::optional<Way> closest;   // of the changes that are not enough

  bool any() const { return !single.empty() || together.has_value(); }
  // "it would fit with K: V (1.98 GiB) or L: W (2.01 GiB)"; where nothing is enough, `else_do` and
  // the closest change.
  std::string Text(const std::string& else_do) const;
};

// `needs`: of the plan that exceeds one of the limits, or both. A run without memory.budget may be
// given one by a way, 90 % of its GPU, as choices that are left open need it.
WaysToFit FindWaysToFit(const config::RunConfig& config, const Needs& needs, const Needs& limits);

}  // namespace plimsoll::trainer
