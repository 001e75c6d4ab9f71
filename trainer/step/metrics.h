// What a step, or an evaluation, tells of each objective: its loss, what its update was like, and
// what the model declares (models::Metric).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "graph/tensor.h"
#include "models/model.h"

namespace plimsoll::trainer {

// A metric that the programs of a step or an evaluation have.
struct MetricInfo {
  std::string name = "";        // "accuracy"; of an objective that has a name, "critic.accuracy"
  graph::TensorType type = {};  // of the sum
  int objective = 0;            // index into CompiledStep::objectives
  // By the model: its values are in StepMetrics::declared. The fields there are the others.
  bool declared = false;
  bool evaluated = false;  // a sum over the batch, which an evaluation has as well as a step
  bool counted = false;    // the sum is divided by a count
  bool larger_is_better = false;

  bool scalar() const { return type.shape.rank() == 0; }
};

// The metrics that a program has whatever its model, as far as it has them: without the name of the
// objective.
std::vector<MetricInfo> BuiltInMetrics();

// Of a declared metric: what was added up over micro-steps and ranks, or batches.
struct MetricSum {
  std::vector<double> sum;           // row-major
  std::optional<double> count = {};  // where it is counted
  double value() const;              // of a scalar
  void Add(const MetricSum& more);
};

// Of one objective. Where it updates several times a step, of its last update.
struct StepMetrics {
  double loss = 0;        // nats per token, mean over the step's tokens
  double grad_norm = 0;   // infinite or NaN when a gradient is
  double loss_scale = 1;  // of the next step
  int64_t skipped = 0;    // updates skipped so far, by loss scaling or for a divergence
  int64_t skipped_in_a_row = 0;
  std::vector<MetricSum> declared = {};  // in the order of CompiledStep::metrics

  // Those of an evaluation: the batches add up.
  void AddBatch(const StepMetrics& batch);
};

// A metric of evaluations, and where it is among the metrics of a step or an evaluation.
struct EvaluatedMetric {
  std::string name;
  MetricInfo info;
  size_t declared = 0;  // index into StepMetrics::declared

  // Of a scalar.
  double Value(std::span<const StepMetrics> objectives) const;
  // Of one that is declared.
  const MetricSum& Sum(std::span<const StepMetrics> objectives) const;
};
// The loss of the first objective under the name "loss", the losses of objectives that have names,
// and what the model declares.
std::vector<EvaluatedMetric> EvaluatedMetrics(std::span<const MetricInfo> metrics);

// The tensor that holds the count of a metric.
std::string CountName(std::string_view metric);

// Gives each metric of a forward pass, and its count, a tensor of its own that has its name, and
// returns what they are. InternalError, naming the metric, where that cannot be.
std::vector<MetricInfo> DeclareMetrics(graph::Builder& builder,
                                       std::span<const models::Metric> metrics,
                                       std::string_view objective);

}  // namespace plimsoll::trainer
