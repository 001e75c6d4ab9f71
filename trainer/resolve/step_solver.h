// The candidate plans of a run: the run's variants, searched by memory/solver.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "memory/solver.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/resolve/knobs.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

struct StepSolverOptions {
  bool built_in_rates = false;  // use built-in rates, which suffice to find the smallest plan
  bool coarse = false;          // try few options, for a quick search
  bool policies = false;        // try only the named policies
  int64_t stage = 0;            // the pipeline stage to plan
};

// The candidate plans of a run.
class StepSolver {
 public:
  // Times the ops on this device first, unless memory.calibrate is false.
  explicit StepSolver(const config::RunConfig& config, const StepSolverOptions& options = {});
  ~StepSolver();

  memory::Solver& solver();
  const models::Model& model() const;
  const memory::CostModel& cost() const;
  const memory::PlanOptions& plan_options() const;

  // config: the run as given. ConfigOf: the run with the choices of a variant or of a candidate.
  const config::RunConfig& config() const;
  int64_t stage() const;
  const config::RunConfig& ConfigOf(size_t variant) const;
  config::RunConfig ConfigOf(const memory::Candidate& candidate) const;
  // Why no variant uses a key that the run leaves open. Empty if some variant uses the key.
  std::string WhyLeftOut(const Knob& knob) const;
  CompileOptions OptionsOf(const memory::Candidate& candidate) const;

  // Describes which tensors are recomputed or offloaded: "blocks 0-7: recompute norm_1, norm_2,
  // gelu".
  static constexpr const char* kAsTheFileSays = "as the file says";  // if no decision was made
  std::string Describe(const memory::Candidate& candidate) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::trainer
