// Tracks the steps enqueued on the device, and reports the finished ones: a row of metrics.jsonl
// and of the reports, and a line for the user.
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
  // The log's environment; it must outlive the log. `reports` is nullptr on all ranks but the
  // first.
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

  // Begin: call it when the host begins a step. Handed: call it when the step is enqueued on the
  // device.
  void Begin();
  // `data_seconds` is the host thread's time for the step's data. `tokens` excludes padding;
  // without a value, the step's programs read only tokens that count.
  void Handed(int64_t step, std::span<const ObjectiveStep> objectives, double data_seconds,
              std::optional<int64_t> tokens = std::nullopt);
  // Reports a step without targets, which is not enqueued. Call it while no step is in flight.
  void HasNoTargets(int64_t step);
  // Steps enqueued but not yet reported.
  int64_t under_way() const { return std::ssize(under_way_); }
  // Tells the log that something other than a step follows: an evaluation, or waiting for a
  // snapshot.
  void Interrupt() { windows_.Interrupt(); }

  // Waits for the oldest step in flight, and reports it.
  struct Done {
    int64_t step = 0;
    double seconds = 0;
    Verdict verdict = {};
  };
  Done Take();
  // Reports all steps in flight without judging them. For a run that ends with an error, maybe on
  // this rank alone.
  void TakeWhatRan();
  // Drops the steps in flight, because their results are meaningless.
  void Drop();

  // Adds a row to metrics.jsonl and to the reports.
  void Record(const nlohmann::ordered_json& row);
  // Adds a row to samples.jsonl, and a text to TensorBoard.
  void RecordSample(const nlohmann::ordered_json& row);
  // Removes the rows after `step`, because the run goes back to `step` with the state `evaluation`.
  void GoBack(int64_t step, const EvaluationState& evaluation, const std::string& text);

  // The process's memory at the step logged last; nothing on the CPU.
  std::optional<int64_t> gpu_bytes() const { return gpu_bytes_; }

  // The energy counter; without one, the reason.
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
  Clock::time_point start_;  // start of the oldest step in flight, or end of the step before it
  bool follows_ = false;     // whether the next step was in flight when the last one was reported
  std::optional<int64_t> gpu_bytes_;
  runtime::FoundEnergyCounter energy_;
  EnergyWindows windows_;
  int64_t steps_ = 0;  // finished steps of this process
};

}  // namespace plimsoll::trainer
