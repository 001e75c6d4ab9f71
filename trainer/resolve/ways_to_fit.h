// Finds changes to the run file that make a run fit its limits, and the run's smallest plan.
// Refusals of memory.budget, plans for a GPU that is too small, and starting files take their
// numbers from here.
//
// All plans use built-in rates, so every command names the same bytes. A coarse search, which tries
// few options for each block, judges all changes first: a change that fits by the coarse search
// fits by the full one. The full search follows for the changes that are named and, if no change is
// enough, for the closest one. So a change that fits only by the full search is found only if it is
// the closest.
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

// Bytes of device and host memory: the needs of a plan's process, or limits.
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
// `solver` is any solver of the run. It is used for the search if its rates are the built-in ones.
SmallestPlan SmallestOf(StepSolver& solver, const Needs& limits);

// A change to a run file, and the needs of the run's smallest plan with that change: the largest
// needs of its stages.
struct Way {
  std::string text;               // "train.micro_batch: 1 with train.accumulate: 16"
  std::vector<std::string> sets;  // the change as --set takes it: "train.micro_batch=1"
  Needs needs;
};

struct WaysToFit {
  // Whether the text compares the needs with the device's limit. Otherwise it compares them with
  // the host's limit.
  bool of_device = true;
  std::vector<Way> single;  // changes that are enough alone, from the smallest change on
  // If no single change is enough: all changes together that do not affect results.
  std::optional<Way> together;
  std::optional<Way> closest;  // the change with the smallest excess if no change is enough

  bool any() const { return !single.empty() || together.has_value(); }
  // "it would fit with K: V (1.98 GiB) or L: W (2.01 GiB)". If no change is enough, gives `else_do`
  // and the closest change.
  std::string Text(const std::string& else_do) const;
};

// `needs` are the needs of the plan that exceeds one or both limits. A suggested change may give a
// run without memory.budget a budget of 90 % of its GPU, because open choices need a budget. A
// change to a pipeline fits if all its stages do.
WaysToFit FindWaysToFit(const config::RunConfig& config, const Needs& needs, const Needs& limits);

}  // namespace plimsoll::trainer
