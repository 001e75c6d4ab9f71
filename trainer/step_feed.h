// The inputs that a run gives its session for each step: samples, for the draws of data that the
// step's programs read, and the settings of each objective.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mesh.h"
#include "data/prefetch.h"
#include "data/source.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/divergence.h"
#include "trainer/step/data_reads.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

class StepFeed {
 public:
  // For one rank of the mesh. `config` must outlive it. UserError when the data cannot fill a step.
  StepFeed(const config::RunConfig& config, const models::Model& model,
           const MeshPosition& position);

  const data::Source& source() const { return *source_; }
  const data::Draws& draws() const { return draws_; }
  // Ends the threads that prepare batches. Call it before a session ends that was filled: they fill
  // its places.
  void Stop();
  // Makes `step` begin with that sample; the later steps follow on.
  void ContinueAt(int64_t step, int64_t sample);

  // Gives the session the data that a run of that step reads. Call it for all runs of a step, in
  // their order. With data.workers, threads prepare the batches of the runs that follow: where the
  // session has places for them, it reads them there, and nothing is copied here.
  void Fill(int64_t step, const StepRun& run, Session& session);
  // Valid until the next call. Empty: an objective has no target to learn from in that step, on all
  // ranks alike.
  std::span<const ObjectiveStep> Objectives(int64_t step, const CompiledStep& compiled,
                                            const Divergence& divergence);

  // The tokens that the step reads on all ranks, without padding. Nothing: there is no padding, or
  // it counts (data::Source::CountTokens).
  std::optional<int64_t> CountTokens(int64_t step) const;

  // The time that the calling thread has spent on the data of the step since its first Fill, in
  // seconds: waiting for the workers, preparing, and copying. Call it once, after the step's runs.
  double TakeSeconds(const Session& session);
  // What would make that time shorter: "more data.workers may help"; empty: nothing does.
  std::string Advice() const;

  // "data: 2 workers prepare 1500 samples/s, training takes 320/s"; empty: there are no workers, or
  // nothing was measured.
  std::string RatesText() const;
  // Once, after some seconds in which training has waited for its data for more than a fifth of the
  // time: a warning that says so.
  std::optional<std::string> HeldBack();
  // Once, as soon as the source could not read something and left it out: a warning that says so.
  std::optional<std::string> Unread();

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kNone = -1;
  bool Prefetches(Session& session, std::span<const Slot> slots);
  void FillMicroStep(int64_t micro_step, int64_t step, int64_t draw, Session& session);
  void Lend(int64_t micro_step, int64_t number, Session& session);
  void TakeBack(int64_t micro_step);
  double SecondsSinceStart() const;

  const config::RunConfig& config_;
  std::vector<config::RunConfig> own_;  // with each objective's own keys
  data::Draws draws_;
  std::unique_ptr<data::Source> source_;
  std::vector<ObjectiveStep> told_;
  std::vector<int64_t> filled_;  // draws that the slots hold, by number of the micro-step or slot
  DataReads reads_;              // in whose order batches are prepared
  int64_t read_ = 0;             // the step's next one
  int64_t workers_ = 0;
  std::vector<std::string> prefetched_;     // the slots that all batches have, by name
  std::optional<Clock::time_point> start_;  // of the first batch
  double fill_seconds_ = 0;                 // in Fill, of the step
  double copied_before_ = 0;                // DeviceMemory::copy_seconds before the step
  double waited_seconds_ = 0;               // of all steps that were taken
  int64_t samples_ = 0;                     // filled
  bool said_held_back_ = false, said_unread_ = false;
  std::unique_ptr<data::BatchMemory> places_;     // the session's; nullptr: the prefetcher's own
  std::vector<int> lent_;                         // by micro-step, or kNone
  std::unique_ptr<data::Prefetcher> prefetcher_;  // last: its threads use the other members
};

}  // namespace plimsoll::trainer
