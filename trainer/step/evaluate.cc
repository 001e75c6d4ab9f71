#include "trainer/step/evaluate.h"

#include <span>

namespace plimsoll::trainer {

std::vector<StepMetrics> EvaluateBatches(Session& session, const data::HeldOutBatches& batches,
                                         const std::function<void(int64_t done)>& progress) {
  std::vector<int64_t> targets;
  for (const models::Objective& objective : session.compiled().objectives) {
    targets.push_back(batches.CountTargets(objective.name));
  }
  std::vector<StepMetrics> all(session.objectives());
  for (int64_t i = 0; i < batches.count(); ++i) {
    // A pipeline stage that reads no data has no slots.
    if (!session.slots().empty()) batches.Fill(i, session.slots());
    const std::span<const StepMetrics> metrics = session.Evaluate(targets, batches.CountSamples());
    for (size_t objective = 0; objective < all.size(); ++objective) {
      all[objective].AddBatch(metrics[objective]);
    }
    if (progress) progress(i + 1);
  }
  return all;
}

std::vector<StepMetrics> EvaluateAverages(Session& session, const data::HeldOutBatches& batches,
                                          const std::vector<StepMetrics>& of_weights,
                                          const std::function<void(int64_t done)>& progress) {
  if (!session.HasAverages()) return of_weights;
  session.ExchangeAverages();
  std::vector<StepMetrics> metrics = EvaluateBatches(session, batches, progress);
  session.ExchangeAverages();
  return metrics;
}

}  // namespace plimsoll::trainer
