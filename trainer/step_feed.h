// Gives a session the inputs of each step: the samples that the step's programs read, and the
// settings of each objective. A draw is one micro-batch of samples.
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
  // The feed of one rank of the mesh. `config` must outlive this object. Throws a UserError if the
  // data cannot fill a step.
  StepFeed(const config::RunConfig& config, const models::Model& model,
           const MeshPosition& position);

  const data::Source& source() const { return *source_; }
  const data::Draws& draws() const { return draws_; }
  // Ends the threads that prepare batches. Call this before the session of Fill is destroyed,
  // because the threads write to its input places.
  void Stop();
  // Makes `step` begin with sample number `sample`. Later steps continue from there.
  void ContinueAt(int64_t step, int64_t sample);

  // Gives the session the data that `run` of `step` reads. Call this for all runs of a step, in
  // order. With data.workers, threads prepare the batches of later runs. If the session has input
  // places, threads prepare batches in these places, and nothing is copied here.
  void Fill(int64_t step, const StepRun& run, Session& session);
  // The settings of each objective, valid until the next call. Empty, on all ranks alike, if an
  // objective has no target in that step.
  std::span<const ObjectiveStep> Objectives(int64_t step, const CompiledStep& compiled,
                                            const Divergence& divergence);

  // The number of tokens that the step reads on all ranks, without padding. nullopt if there is no
  // padding, or if padding counts (data::Source::CountTokens).
  std::optional<int64_t> CountTokens(int64_t step) const;

  // The seconds that the calling thread has spent on the step's data since the step's first Fill:
  // waiting for the workers, preparing, and copying. Call this once after the step's runs.
  double TakeSeconds(const Session& session);
  // Advice to spend less of that time: "more data.workers may help". Empty without advice.
  std::string Advice() const;

  // The rates at which workers prepare samples and training reads them: "data: 2 workers prepare
  // 1500 samples/s, training takes 320/s". Empty without workers or measurements.
  std::string RatesText() const;
  // A warning if training has waited for data for more than a fifth of the time, measured over some
  // seconds. Returned once.
  std::optional<std::string> HeldBack();
  // A warning if the source could not read some data and skipped it. Returned once.
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
  std::vector<config::RunConfig> own_;  // for each objective, the configuration with its own keys
  data::Draws draws_;
  std::unique_ptr<data::Source> source_;
  std::vector<ObjectiveStep> told_;
  std::vector<int64_t> filled_;  // for each micro-step or slot, the draw that its inputs hold
  DataReads reads_;              // the order in which batches are prepared
  int64_t read_ = 0;             // number of the next read in the step (DataReads)
  int64_t workers_ = 0;
  std::vector<std::string> prefetched_;     // names of the slots that every batch fills
  std::optional<Clock::time_point> start_;  // when the first batch was requested
  double fill_seconds_ = 0;                 // time spent in Fill during the step
  double copied_before_ = 0;                // DeviceMemory::copy_seconds before the step
  double waited_seconds_ = 0;               // time that the steps so far have waited for data
  int64_t samples_ = 0;                     // number of samples filled so far
  bool said_held_back_ = false, said_unread_ = false;
  // The session's input places; nullptr if the prefetcher has its own memory.
  std::unique_ptr<data::BatchMemory> places_;
  std::vector<int> lent_;  // for each micro-step, the place that it reads, or kNone
  // Declared last, because the prefetcher's threads use the other members.
  std::unique_ptr<data::Prefetcher> prefetcher_;
};

}  // namespace plimsoll::trainer
