#include "trainer/step/metrics.h"

#include <algorithm>

#include "amp/fp8.h"
#include "base/error.h"
#include "graph/objective.h"
#include "ops/elementwise/arithmetic.h"

namespace plimsoll::trainer {
namespace {

using graph::Builder;
using graph::DType;
using graph::kNoTensor;
using graph::Program;
using graph::Value;

[[noreturn]] void Fail(const std::string& metric, const std::string& problem) {
  throw InternalError("metric '" + metric + "' " + problem);
}

// Copies the value into a tensor of its own, because the model's value may be the loss, an input, a
// view, or a result that the backward pass recomputes.
Value Own(Builder& g, Value value, const std::string& metric, const std::string& name) {
  if (value == kNoTensor) Fail(metric, "is the sum of nothing");
  const DType dtype = g.dtype(value);
  if (dtype != DType::kFloat32 && dtype != DType::kInt32) {
    Fail(metric, "is " + g.type(value).ToString() + "; metrics are f32 or i32");
  }
  Program& program = g.program();
  if (const Value taken = program.Find(name); taken != kNoTensor) {
    if (program.tensor(taken).persistent) Fail(metric, "has the name of another tensor");
    program.Rename(taken, program.FreshName(name + ".value"));
  }
  const Value own = ops::Cast(g, value, dtype, name);
  program.mutable_tensor(own).role = graph::Role::kMetric;
  program.mutable_tensor(own).persistent = true;
  program.mutable_tensor(own).merge = graph::kSummed;
  return own;
}

}  // namespace

std::vector<MetricInfo> BuiltInMetrics() {
  const graph::TensorType scalar{DType::kFloat32, {}};
  return {{.name = "loss", .type = scalar, .evaluated = true},
          {.name = "grad_norm", .type = scalar},
          {.name = "loss_scale", .type = scalar},
          {.name = "skipped", .type = {DType::kInt32, {2}}},
          {.name = std::string(amp::Fp8Products::kCounts), .type = {DType::kFloat32, {3}}}};
}

double MetricSum::value() const { return count ? sum.at(0) / *count : sum.at(0); }

void MetricSum::Add(const MetricSum& more) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += more.sum.at(i);
  if (count) *count += more.count.value();
}

void StepMetrics::AddBatch(const StepMetrics& batch) {
  loss += batch.loss;
  if (declared.empty()) {
    declared = batch.declared;
    return;
  }
  for (size_t i = 0; i < declared.size(); ++i) declared[i].Add(batch.declared.at(i));
}

double EvaluatedMetric::Value(std::span<const StepMetrics> objectives) const {
  if (derive != nullptr) return derive(Sum(objectives).sum);
  return info.declared ? Sum(objectives).value()
                       : objectives[static_cast<size_t>(info.objective)].loss;
}

const MetricSum& EvaluatedMetric::Sum(std::span<const StepMetrics> objectives) const {
  return objectives[static_cast<size_t>(info.objective)].declared.at(declared);
}

std::vector<EvaluatedMetric> EvaluatedMetrics(std::span<const MetricInfo> metrics) {
  std::vector<EvaluatedMetric> evaluated;
  std::vector<size_t> declared;  // for each objective, the number of metrics declared so far
  bool averaged = false;
  for (const MetricInfo& metric : metrics) {
    declared.resize(static_cast<size_t>(metric.objective) + 1, 0);
    if (!metric.evaluated) continue;
    averaged = averaged || metric.averaged;
    if (evaluated.empty()) {
      evaluated.push_back({"loss", metric});
      if (metric.name == evaluated.front().name) continue;
    }
    evaluated.push_back({metric.name, metric});
    if (!metric.declared) continue;
    const size_t index = declared.back()++;
    evaluated.back().declared = index;
    for (const models::DerivedMetric& derived : metric.derived) {
      evaluated.push_back({.name = derived.name,
                           .info = {.name = derived.name,
                                    .type = {DType::kFloat32, {}},
                                    .objective = metric.objective,
                                    .declared = true,
                                    .evaluated = true,
                                    .larger_is_better = derived.larger_is_better,
                                    .in_steps = false},
                           .declared = index,
                           .derive = derived.value});
    }
  }
  if (!averaged) return evaluated;
  const size_t of_weights = evaluated.size();
  for (size_t i = 0; i < of_weights; ++i) {
    if (!evaluated[i].info.scalar()) continue;
    EvaluatedMetric metric = evaluated[i];
    metric.name = metric.info.name = "ema_" + metric.name;
    metric.info.objective += static_cast<int>(declared.size());
    metric.info.in_steps = false;
    evaluated.push_back(std::move(metric));
  }
  return evaluated;
}

std::string CountName(std::string_view metric) { return std::string(metric) + ".count"; }

std::vector<MetricInfo> DeclareMetrics(Builder& g, std::span<const models::Metric> metrics,
                                       std::string_view objective) {
  std::vector<MetricInfo> infos;
  for (const models::Metric& metric : metrics) {
    MetricInfo info{.name = graph::OfObjective(objective, metric.name),
                    .declared = true,
                    .evaluated = true,
                    .counted = metric.count != kNoTensor,
                    .larger_is_better = metric.larger_is_better,
                    .rows = metric.rows,
                    .columns = metric.columns,
                    .derived = metric.derived};
    for (models::DerivedMetric& derived : info.derived) {
      derived.name = graph::OfObjective(objective, derived.name);
    }
    const auto same_name = [&](const MetricInfo& other) { return other.name == metric.name; };
    if (std::ranges::any_of(BuiltInMetrics(), same_name)) Fail(info.name, "is there already");
    info.type = g.type(Own(g, metric.sum, info.name, info.name));
    if (info.counted) {
      const Value count = Own(g, metric.count, info.name, CountName(info.name));
      if (g.shape(count).rank() != 0) Fail(info.name, "has a count that is no scalar");
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace plimsoll::trainer
