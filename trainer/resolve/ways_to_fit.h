// Finds what would make a run fit that exceeds a limit: the smallest plan, and changes to the run
// file. Refusals of memory.budget, the plan for a GPU that is too small, and starting files all
// take their numbers from here.
//
// All plans use built-in rates, so that every command names the same bytes. A coarse search, which
// tries few options for each block, judges all changes first: a change that fits by the coarse
// search fits by the full one. The full search follows for the changes that are named and, if no
// change is enough, for the closest one. A change that makes a run fit only by the full search is
// therefore found only if it is the closest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memory/plan.h"
#include "memory/solver.h"
#include "trainer/config/run_config.h"
#include "trainer/resolve/step_solver.h"

namespace plimsoll::trainer {

// Bytes of the device's memory and of the host's: the needs of a plan's process, or limits.
struct Needs {
  int64_t process = 0, host = 0;

  bool Within(const Needs& limits) const {
    return process <= limits.process && host <= limits.host;
  }
};
// The limits of a budget.
Needs LimitsOf(const memory::Budget& budget);

// The run's smallest plan within the host's limit.
struct SmallestPlan {
  Needs needs;
  memory::MemoryPlan plan;
};
// `solver`: any solver of the run; it is searched itself if its rates are the built-in ones.
SmallestPlan SmallestOf(StepSolver& solver, const Needs& limits);

// A change to a run file, and the needs of the run's smallest plan with that change.
struct Way {
  std::string text;               // "train.micro_batch: 1 with train.accumulate: 16"
  std::vector<std::string> sets;  // the change as --set takes it: "train.micro_batch=1"
  Needs needs;
};

struct WaysToFit {
  // The text compares the needs of a way with the device's limit, else the host's.
  bool of_device = true;
  std::vector<Way> single;  // each change is enough by itself; those that change least come first
  // If no single change is enough: all changes together that change no number.
  std::optional<Way> together;
  std::optional<Way> closest;  // the closest of the changes that are not enough

  bool any() const { return !single.empty() || together.has_value(); }
  // "it would fit with K: V (1.98 GiB) or L: W (2.01 GiB)"; if nothing is enough, `else_do` and the
  // closest change.
  std::string Text(const std::string& else_do) const;
};

// `needs`: the needs of the plan that exceeds one or both of the limits. A way may give a run
// without memory.budget a budget of 90 % of its GPU, because choices that are left open need one.
WaysToFit FindWaysToFit(const config::RunConfig& config, const Needs& needs, const Needs& limits);

}  // namespace plimsoll::trainer
