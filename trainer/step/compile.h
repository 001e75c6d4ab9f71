// Compiles a model to the programs of a training step, by the passes of passes.h, and plans their
// memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/pass.h"
#include "memory/plan.h"
#include "models/model.h"
#include "models/sharding.h"
#include "trainer/step/compile_options.h"
#include "trainer/step/metrics.h"
#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {

struct CompiledStep {
  CompileOptions options;
  ProgramList programs;
  StepPrograms step;
  std::vector<models::Objective> objectives;  // objectives that the step trains
  std::vector<MetricInfo> metrics;            // metrics of the step and of evaluation, by objective
  std::vector<models::StateInfo> states;      // states of the model
  memory::MemoryPlan plan;
  int64_t input_place_bytes = 0;  // bytes of one input place (CompileOptions::input_places)
  // The model's data inputs, including those that only other stages read.
  std::vector<std::pair<std::string, graph::TensorType>> inputs;
  std::set<std::string> tables;  // parameters that the first and the last stage both have
  // The unsharded shape of each parameter that data ranks shard.
  std::map<std::string, graph::Shape> divided;
  // The parameters that tensor-parallel ranks split, by name.
  std::map<std::string, models::SplitParameter> split;
  std::vector<graph::PassReport> passes;
  double flops_per_step = 0;  // FLOPs of all micro-steps and updates, as the ops count them
  // The FLOPs of the model's mathematics in a step, over all ranks that work on the same sequences.
  // Only matrix products count (graph::Cost::products), without recomputation. This is the
  // numerator of model FLOPs utilisation (MFU).
  double model_flops = 0;
  double model_flops_of_codes = 0;  // the part of model_flops in products of 8-bit codes

  // This step's programs in the form that the memory planner reads. The step must outlive the
  // result.
  memory::PlannedPrograms planned() const;
};

// The programs of a step's micro-steps.
std::vector<const graph::Program*> StepProgramsOf(const CompiledStep& compiled);

// The parameters of a model with its adapters.
struct ParameterCounts {
  int64_t all = 0;
  int64_t trained = 0;
};
ParameterCounts CountParameters(const models::Model& model, const CompileOptions& options);
// Text such as "124M parameters". Also gives the number of trained parameters if some are frozen.
std::string ParametersText(const models::Model& model, const CompileOptions& options);

// CompiledStep::model_flops for each token of the data.
double ModelFlopsPerToken(const CompiledStep& compiled);
// FLOPs of recomputation in a step, on this rank.
double RecomputeFlops(const CompiledStep& compiled);
// Sums `of(program, node)` over the nodes that a step executes.
double OverStep(const CompiledStep& compiled,
                const std::function<double(const graph::Program&, const graph::Node&)>& of);

// Compiles the model and plans its memory; an independent checker verifies the plan. Throws an
// InternalError if a pass or the plan is wrong.
CompiledStep Compile(const models::Model& model, const CompileOptions& options);

}  // namespace plimsoll::trainer
