// The metrics that a step or an evaluation reports for each objective: the loss, the gradient norm
// and loss scale of the update, and the metrics that the model declares (models::Metric).
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

// A metric that the programs of a step or an evaluation report.
struct MetricInfo {
  // Such as "accuracy", or "critic.accuracy" for the objective named "critic".
  std::string name = "";
  graph::TensorType type = {};  // type of the sum of the metric's values
  int objective = 0;            // index into CompiledStep::objectives
  // Whether the model declares the metric. Values of declared metrics are in StepMetrics::declared,
  // values of built-in metrics in the other fields of StepMetrics.
  bool declared = false;
  bool evaluated = false;  // is a sum over the batch, which both evaluations and steps report
  bool averaged = false;   // evaluations also report the metric for the averaged weights
  bool counted = false;    // the sum is divided by a count
  bool larger_is_better = false;
  bool in_steps = true;                 // steps report the metric; otherwise only evaluations do
  std::string rows = "", columns = "";  // see models::Metric
  std::vector<models::DerivedMetric> derived = {};

  bool scalar() const { return type.shape.rank() == 0; }
};

// The built-in metrics that any model's programs can have, named without the objective.
std::vector<MetricInfo> BuiltInMetrics();

// A declared metric, summed over micro-steps and ranks, or over batches.
struct MetricSum {
  std::vector<double> sum;           // row-major
  std::optional<double> count = {};  // only if the metric is counted
  double value() const;              // the value of a scalar metric
  void Add(const MetricSum& more);
};

// The fractions of values that saturated, became zero or overflowed when the values were quantized
// to 8-bit codes (ops/linear/count_codes.h).
struct CodeShares {
  float saturated = 0, zeroed = 0, overflowed = 0;
};

// The metrics of one objective. If the objective updates several times in a step, these are the
// metrics of the last update.
struct StepMetrics {
  double loss = 0;        // nats per token, mean over the step's tokens
  double grad_norm = 0;   // infinite or NaN if any gradient is
  double loss_scale = 1;  // loss scale of the next step
  int64_t skipped = 0;    // number of updates skipped so far, by loss scaling or after a divergence
  int64_t skipped_in_a_row = 0;
  std::optional<CodeShares> codes = {};  // only with amp.fp8.counts
  std::vector<MetricSum> declared = {};  // declared metrics, in the order of CompiledStep::metrics

  // For evaluations: adds the metrics of another batch to these metrics.
  void AddBatch(const StepMetrics& batch);
};

// A metric of evaluations, and its index among the declared metrics.
struct EvaluatedMetric {
  std::string name;
  MetricInfo info;
  size_t declared = 0;  // index into StepMetrics::declared
  // Derives the value from the elements of the metric `declared`. nullptr means that the value is
  // the metric itself.
  double (*derive)(std::span<const double> elements) = nullptr;

  // The value of a scalar metric. `objectives` holds the metrics of each objective with the
  // weights. If a metric is averaged, the metrics with the averaged weights follow.
  double Value(std::span<const StepMetrics> objectives) const;
  // The sum and count of a declared metric.
  const MetricSum& Sum(std::span<const StepMetrics> objectives) const;
};
// The loss of the first objective under the name "loss", the losses of named objectives, and the
// metrics that the model declares, each followed by its derived metrics. If there are averages, the
// scalar metrics with averaged weights follow: "ema_loss", "ema_accuracy".
std::vector<EvaluatedMetric> EvaluatedMetrics(std::span<const MetricInfo> metrics);

// The name of the tensor that holds a metric's count.
std::string CountName(std::string_view metric);

// Copies each metric of a forward pass, and its count, into a tensor with the metric's name, and
// returns the metrics' descriptions. Throws an InternalError that names the metric if that is
// impossible.
std::vector<MetricInfo> DeclareMetrics(graph::Builder& builder,
                                       std::span<const models::Metric> metrics,
                                       std::string_view objective);

}  // namespace plimsoll::trainer
