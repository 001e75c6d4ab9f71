// The inputs that a run gives its session for each step: samples, for the draws of data that the
// step's programs read, and the settings of each objective.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/mesh.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/data/source.h"
#include "trainer/divergence.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

class StepFeed {
 public:
  // For one rank of the mesh. `config` must outlive it. UserError when the data cannot fill a step.
  StepFeed(const config::RunConfig& config, const models::Model& model,
           const MeshPosition& position);

  const data::Source& source() const { return *source_; }
  const data::Draws& draws() const { return draws_; }
  // Makes `step` begin with that sample; the later steps follow on.
  void ContinueAt(int64_t step, int64_t sample) { draws_.ContinueAt(step, sample); }

  // UserError (data.source) when the source cannot fill one of these slots.
  void RequireAll(std::span<const Slot> slots) const;
  // Fills the slots that a run of that step reads. Call it for all runs of a step, in their order.
  void Fill(int64_t step, const StepRun& run, const Session& session);
  // Valid until the next call. UserError when an objective has no targets to learn from in that
  // step.
  std::span<const ObjectiveStep> Objectives(int64_t step, const CompiledStep& compiled,
                                            const Divergence& divergence);

 private:
  const config::RunConfig& config_;
  std::vector<config::RunConfig> own_;  // with each objective's own keys
  data::Draws draws_;
  std::unique_ptr<data::Source> source_;
  std::vector<ObjectiveStep> told_;
  std::vector<int64_t> filled_;  // draws that the slots hold, by number of the micro-step
};

}  // namespace plimsoll::trainer
