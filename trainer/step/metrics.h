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

// A metric that the programs of a step or an evaluation report.
struct MetricInfo {
  std::string name = "";        // "accuracy"; "critic.accuracy" if the objective has a name
  graph::TensorType type = {};  // type of the sum
  int objective = 0;            // index into CompiledStep::objectives
  // Whether the model declares the metric. Then its values are in StepMetrics::declared; built-in
  // metrics are the other fields of StepMetrics.
  bool declared = false;
  bool evaluated = false;  // a sum over the batch, which both evaluations and steps report
  bool averaged = false;   // an evaluation also reports it for the averaged weights
  bool counted = false;    // the sum is divided by a count
  bool larger_is_better = false;
  bool in_steps = true;                 // a step reports it; otherwise only evaluations do
  std::string rows = "", columns = "";  // models::Metric
  std::vector<models::DerivedMetric> derived = {};

  bool scalar() const { return type.shape.rank() == 0; }
};

// The metrics that any model's programs can have, without the objective's name.
std::vector<MetricInfo> BuiltInMetrics();

// A declared metric, summed over micro-steps and ranks, or over batches.
struct MetricSum {
  std::vector<double> sum;           // row-major
  std::optional<double> count = {};  // only if the metric is counted
  double value() const;              // the value of a scalar metric
  void Add(const MetricSum& more);
};

// The shares of values that saturated, became zero or overflowed when they were quantized to 8-bit
// codes (ops/linear/count_codes.h).
struct CodeShares {
  float saturated = 0, zeroed = 0, overflowed = 0;
};

// The metrics of one objective. If it updates several times in a step, those of its last update.
struct StepMetrics {
  double loss = 0;        // nats per token, mean over the step's tokens
  double grad_norm = 0;   // infinite or NaN if a gradient is
  double loss_scale = 1;  // loss scale of the next step
  int64_t skipped = 0;    // updates skipped so far, by loss scaling or a divergence
  int64_t skipped_in_a_row = 0;
  std::optional<CodeShares> codes = {};  // only with amp.fp8.counts
  std::vector<MetricSum> declared = {};  // declared metrics, in the order of CompiledStep::metrics

  // For evaluations: adds the metrics of another batch to these.
  void AddBatch(const StepMetrics& batch);
};

// A metric of evaluations, and its index among the declared metrics.
struct EvaluatedMetric {
  std::string name;
  MetricInfo info;
  size_t declared = 0;  // index into StepMetrics::declared
  // Derives the value from the elements of the metric `declared`; nullptr: the value is not
  // derived.
  double (*derive)(std::span<const double> elements) = nullptr;

  // The value of a scalar metric. `objectives` holds the metrics of each objective with the
  // weights, followed, if a metric is averaged, by those with the averaged weights.
  double Value(std::span<const StepMetrics> objectives) const;
  // The sum and count of a declared metric.
  const MetricSum& Sum(std::span<const StepMetrics> objectives) const;
};
// The loss of the first objective under the name "loss", the losses of the objectives with names,
// and the metrics that the model declares, each with its derived metrics. The scalar metrics of
// averaged weights follow, if there are averages: "ema_loss", "ema_accuracy".
std::vector<EvaluatedMetric> EvaluatedMetrics(std::span<const MetricInfo> metrics);

// The name of the tensor that holds a metric's count.
std::string CountName(std::string_view metric);

// Copies each metric of a forward pass, and its count, into a tensor with the metric's name, and
// returns their descriptions. InternalError, naming the metric, if that is impossible.
std::vector<MetricInfo> DeclareMetrics(graph::Builder& builder,
                                       std::span<const models::Metric> metrics,
                                       std::string_view objective);

}  // namespace plimsoll::trainer
