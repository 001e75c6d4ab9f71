#include "trainer/step_feed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "trainer/learning_rate.h"
#include "trainer/settle/source_from.h"

namespace plimsoll::trainer {

StepFeed::StepFeed(const config::RunConfig& config, const models::Model& model,
                   const MeshPosition& position)
    : config_(config) {
  const std::vector<models::Objective> objectives = model.objectives();
  for (const models::Objective& objective : objectives) {
    own_.push_back(config.ForObjective(objective.name));
  }
  told_.resize(objectives.size());
  draws_ = DrawsFrom(config, DrawsOf(objectives, config.train.accumulate), position);
  source_ = SourceFrom(config, model, draws_);
}

void StepFeed::RequireAll(std::span<const Slot> slots) const {
  try {
    source_->Fill(0, slots);
  } catch (const UserError& error) {
    // Data that does not suit, of a source that fills the model's inputs, says its own way out.
    const std::vector<std::string> others = data::SourcesThatFill(slots);
    const bool fills = std::ranges::find(others, config_.data.source) != others.end();
    throw config_.Error("data.source", fills || others.empty()
                                           ? error.what()
                                           : fmt::format("{}; this model reads data.source: {}",
                                                         error.what(), fmt::join(others, " or ")));
  }
}

void StepFeed::Fill(int64_t step, const StepRun& run, const Session& session) {
  if (run.number == 0) filled_.assign(static_cast<size_t>(run.micro_steps), -1);
  for (int64_t i = 0; i < run.micro_steps; ++i) {
    // The samples that the run before has read need not be filled in again.
    int64_t& filled = filled_[static_cast<size_t>(i)];
    if (std::exchange(filled, run.draw + i) == run.draw + i) continue;
    source_->Fill(draws_.First(step, run.draw + i), session.slots(i));
  }
}

std::span<const ObjectiveStep> StepFeed::Objectives(int64_t step, const CompiledStep& compiled,
                                                    const Divergence& divergence) {
  const int64_t samples = config_.train.accumulate * draws_.data_ranks * draws_.batch;
  for (ObjectiveStep& told : told_) told.targets.clear();
  for (const StepEntry& entry : compiled.step.entries) {
    if (entry.micro_step > 0) continue;
    const auto objective = static_cast<size_t>(entry.objective);
    const int64_t targets = source_->CountTargets(compiled.objectives[objective].name,
                                                  draws_.FirstOfDraw(step, entry.draw), samples);
    if (targets == 0) {
      throw config_.Error(
          "data.train",
          fmt::format("every target of step {} is marked ignored; there is nothing to learn from",
                      step));
    }
    told_[objective].targets.push_back(targets);
  }
  for (size_t o = 0; o < told_.size(); ++o) {
    const config::RunConfig& own = own_[o];
    told_[o].lr = divergence.lr_factor() *
                  LearningRate(own.schedule, own.optimizer.lr, config_.train.steps, step);
    told_[o].loss_limit = divergence.LimitOf(step, o);
  }
  return told_;
}

}  // namespace plimsoll::trainer
