// From a model to the programs of a training step, by the passes of passes.h, and their memory
// plan.
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
  std::vector<models::Objective> objectives;  // that the step trains
  std::vector<MetricInfo> metrics;            // of the step and of evaluation, by objective
  std::vector<models::StateInfo> states;      // of the model
  memory::MemoryPlan plan;
  int64_t input_place_bytes = 0;  // of each of CompileOptions::input_places
  // The inputs of data that the model has, with those that only other stages read.
  std::vector<std::pair<std::string, graph::TensorType>> inputs;
  std::set<std::string> tables;  // parameters that the first and the last stage both have
  // Of each parameter that data ranks divide among themselves, the shape that a rank works with.
  std::map<std::string, graph::Shape> divided;
  std::map<std::string, models::SplitParameter> split;  // what tensor-parallel ranks share, by name
  std::vector<graph::PassReport> passes;
  double flops_per_step = 0;  // of all micro-steps and updates, as the ops count them
  // FLOPs that the model's mathematics need in a step, on all ranks together that have the same
  // sequences: those of matrix products (graph::Cost::products) without recomputed ones. The
  // numerator of model FLOPs utilisation.
  double model_flops = 0;
  double model_flops_of_codes = 0;  // of these, products of 8-bit codes

  // Of this step, which must outlive them.
  memory::PlannedPrograms planned() const;
};

// The programs of a step's micro-steps.
std::vector<const graph::Program*> StepProgramsOf(const CompiledStep& compiled);

// Of a model with its adapters.
struct ParameterCounts {
  int64_t all = 0;
  int64_t trained = 0;
};
ParameterCounts CountParameters(const models::Model& model, const CompileOptions& options);
// "124M parameters", with how many are trained where that is not all.
std::string ParametersText(const models::Model& model, const CompileOptions& options);

// CompiledStep::model_flops for each token of the data.
double ModelFlopsPerToken(const CompiledStep& compiled);
// FLOPs of this rank in a step that are done a second time because activations were not kept.
double RecomputeFlops(const CompiledStep& compiled);
// Sums `of(program, node)` over the nodes that a step runs.
double OverStep(const CompiledStep& compiled,
                const std::function<double(const graph::Program&, const graph::Node&)>& of);

// The plan has passed the independent checker. InternalError when a pass or the plan is wrong.
CompiledStep Compile(const models::Model& model, const CompileOptions& options);

}  // namespace plimsoll::trainer
