// Tracks the steps enqueued on the device, and reports each finished step: as a row of
// metrics.jsonl and of the reports, and as a line for the user.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/model.h"
#include "runtime/energy.h"
#include "trainer/config/run_config.h"
#include "trainer/divergence.h"
#include "trainer/gpu_account.h"
#include "trainer/record/energy_windows.h"
#include "trainer/record/progress.h"
#include "trainer/record/run_directory.h"
#include "trainer/record/run_reports.h"
#include "trainer/resolve/ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

class StepLog {
 public:
  // The objects that the log uses; they must outlive the log. `reports` is nullptr except on the
  // first rank.
  struct Parts {
    const config::RunConfig& config;
    const models::Model& model;
    Session& session;
    Ranks& ranks;
    RunDirectory& directory;
    RunReports* reports;
    GpuAccount& gpu;
    Progress& progress;
    Divergence& divergence;
  };
  explicit StepLog(const Parts& parts);

  // Begin: call this when the host begins a step. Handed: call this when the step is enqueued on
  // the device.
  void Begin();
  // `data_seconds` is the host thread's time for the step's data. `tokens` excludes padding;
  // nullopt means that the step's programs read no padding to exclude.
  void Handed(int64_t step, std::span<const ObjectiveStep> objectives, double data_seconds,
              std::optional<int64_t> tokens = std::nullopt);
  // Reports a step without targets, which is not enqueued. Call this while no step is in flight.
  void HasNoTargets(int64_t step);
  // The number of steps enqueued but not yet reported.
  int64_t under_way() const { return std::ssize(under_way_); }
  // Tells the log that no step follows next but, for example, an evaluation or waiting for a
  // snapshot.
  void Interrupt() { windows_.Interrupt(); }

  // Waits for the oldest step in flight, and reports it.
  struct Done {
    int64_t step = 0;
    double seconds = 0;
    Verdict verdict = {};
  };
  Done Take();
  // Reports all steps in flight without judging them. Called when a run ends with an error, maybe
  // on this rank alone.
  void TakeWhatRan();
  // Drops the steps in flight, because the results of these steps are meaningless.
  void Drop();

  // Adds a row to metrics.jsonl and to the reports.
  void Record(const nlohmann::ordered_json& row);
  // Adds a row to samples.jsonl, and its text to TensorBoard.
  void RecordSample(const nlohmann::ordered_json& row);
  // Removes the rows after `step`, because the run goes back to `step`; `evaluation` is the state
  // then.
  void GoBack(int64_t step, const EvaluationState& evaluation, const std::string& text);

  // The process's GPU memory at the step logged last; nullopt on the CPU.
  std::optional<int64_t> gpu_bytes() const { return gpu_bytes_; }

  // The energy counter, or the reason why no counter can be read.
  const runtime::FoundEnergyCounter& energy() const { return energy_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct UnderWay {
    int64_t number = 0;
    std::vector<ObjectiveStep> objectives;
    double data_seconds = 0;
    std::optional<int64_t> tokens = {};
  };

  Done Take(bool alone);
  StepReport ReportOf(const UnderWay& step, std::span<const StepMetrics> metrics) const;
  void Keep(const std::function<void()>& append) const;
  std::optional<double> Mfu(double tokens_per_second) const;

  Parts parts_;
  const std::vector<EvaluatedMetric> metrics_;
  std::deque<UnderWay> under_way_;
  // Start of the oldest step in flight, or end of the step before that step.
  Clock::time_point start_;
  // Whether the next step was already in flight when the last step was reported.
  bool follows_ = false;
  std::optional<int64_t> gpu_bytes_;
  runtime::FoundEnergyCounter energy_;
  EnergyWindows windows_;
  int64_t steps_ = 0;  // number of finished steps in this process
};

}  // namespace plimsoll::trainer
