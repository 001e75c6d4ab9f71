// What a step or an evaluation reports for each objective: its loss, its update's gradient norm and
// loss scale, and the metrics that the model declares (models::Metric).
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
  std::string name = "";        // "accuracy"; "critic.accuracy" if the objective has a name
  graph::TensorType type = {};  // of the sum
  int objective = 0;            // index into CompiledStep::objectives
  // Declared by the model: its values are in StepMetrics::declared. Built-in metrics are the other
  // fields of StepMetrics.
  bool declared = false;
  bool evaluated = false;  // a sum over the batch, which an evaluation has as well as a step
  bool averaged = false;   // an evaluation has it of the averaged weights as well
  bool counted = false;    // the sum is divided by a count
  bool larger_is_better = false;
  bool in_steps = true;                 // a step has it; otherwise evaluations only
  std::string rows = "", columns = "";  // models::Metric
  std::vector<models::DerivedMetric> derived = {};

  bool scalar() const { return type.shape.rank() == 0; }
};

// The metrics that any model's programs can have: without the name of the objective.
std::vector<MetricInfo> BuiltInMetrics();

// A declared metric, added up over micro-steps and ranks, or over batches.
struct MetricSum {
  std::vector<double> sum;           // row-major
  std::optional<double> count = {};  // where it is counted
  double value() const;              // of a scalar
  void Add(const MetricSum& more);
};

// Of the values that became 8-bit codes (ops/linear/count_codes.h).
struct CodeShares {
  float saturated = 0, zeroed = 0, overflowed = 0;
};

// The metrics of one objective; those of its last update, if it updates several times a step.
struct StepMetrics {
  double loss = 0;        // nats per token, mean over the step's tokens
  double grad_norm = 0;   // infinite or NaN when a gradient is
  double loss_scale = 1;  // of the next step
  int64_t skipped = 0;    // updates skipped so far, by loss scaling or for a divergence
  int64_t skipped_in_a_row = 0;
  std::optional<CodeShares> codes = {};  // with amp.fp8.counts
  std::vector<MetricSum> declared = {};  // in the order of CompiledStep::metrics

  // For evaluations: adds the metrics of another batch.
  void AddBatch(const StepMetrics& batch);
};

// A metric of evaluations, and its index among the declared metrics of a step or an evaluation.
struct EvaluatedMetric {
  std::string name;
  MetricInfo info;
  size_t declared = 0;  // index into StepMetrics::declared
  // Where the value is derived: `declared` is the metric that it follows from.
  double (*derive)(std::span<const double> elements) = nullptr;

  // The value of a scalar metric. `objectives` are those of the weights, and behind them, where a
  // metric is averaged, those of their averages.
  double Value(std::span<const StepMetrics> objectives) const;
  // The sum and count of a declared metric.
  const MetricSum& Sum(std::span<const StepMetrics> objectives) const;
};
// The loss of the first objective under the name "loss", the losses of the objectives that have
// names, and the metrics that the model declares, each with those that are derived from it. Behind
// them the scalar ones of the averaged weights, where there are such: "ema_loss", "ema_accuracy".
std::vector<EvaluatedMetric> EvaluatedMetrics(std::span<const MetricInfo> metrics);

// The tensor that holds the count of a metric.
std::string CountName(std::string_view metric);

// Copies each metric of a forward pass, and its count, into a tensor of its own with its name, and
// returns their descriptions. InternalError, naming the metric, where that is impossible.
std::vector<MetricInfo> DeclareMetrics(graph::Builder& builder,
                                       std::span<const models::Metric> metrics,
                                       std::string_view objective);

}  // namespace plimsoll::trainer
