// The tables of `plimsoll plan` that show plans other than the chosen one.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/resolve/step_solver.h"

namespace plimsoll::trainer {

// The candidates on the time–memory front around a budget, the named policies, and the chosen plan.
class CandidateTable {
 public:
  CandidateTable(StepSolver& solver, const memory::Budget& budget, const memory::Candidate* chosen);
  std::string Text() const;
  nlohmann::ordered_json Json() const;

 private:
  StepSolver& solver_;
  memory::Budget budget_;
  const memory::Candidate* chosen_;
  std::vector<const memory::Candidate*> rows_;  // sorted from the largest arena to the smallest
};

// The fastest plan for each of `count` budgets. The budgets are evenly spaced between the bytes of
// the fastest plan of all and those of the smallest plan. Of `lines` only memory.host_budget and
// the device's profile are used.
class SweepTable {
 public:
  SweepTable(StepSolver& solver, int count, const memory::Budget& lines);
  std::string Text() const;
  nlohmann::ordered_json Json() const;

 private:
  struct Row {
    int64_t budget;  // budget of the process
    const memory::Candidate* plan;
  };
  StepSolver& solver_;
  std::vector<Row> rows_;
};

// Prints the largest value of `key` whose smallest plan, or fixed plan, fits memory.budget. Throws
// a UserError if the key cannot grow, if there is no budget, or if not even 1 fits.
void PrintLargest(const config::RunConfig& config, const std::string& key, bool json);

// Prints the memory of each rank for every layout that the run leaves open: data × tensor ranks and
// ZeRO stages. Throws a UserError if no layout is possible, or if a choice is open without a
// budget.
void PrintMeshes(const config::RunConfig& config, bool json);

// Prints each parameter with its shape, how a rank stores it, whether it is trained, and its names
// in checkpoints. Throws a UserError if the ranks' layout is open and none is possible.
void PrintParameters(const config::RunConfig& config, bool json);

}  // namespace plimsoll::trainer
