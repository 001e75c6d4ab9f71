// The steps handed to the device, and the reports of those that it has finished: for each a row of
// metrics.jsonl and of the reports, and a line for the user.
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
  // All of these must outlive the log. `reports`: on the first rank; nullptr on others.
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

  // Begin: the host begins a step. Handed: the step has been handed to the device.
  void Begin();
  // `data_seconds`: of the host's thread, for the step's data. `tokens`: without padding; nothing:
  // all that the step's programs read.
  void Handed(int64_t step, std::span<const ObjectiveStep> objectives, double data_seconds,
              std::optional<int64_t> tokens = std::nullopt);
  // The step has no targets, and is not handed to the device. No step is under way.
  void HasNoTargets(int64_t step);
  int64_t under_way() const { return std::ssize(under_way_); }  // handed, and without a row
  // Something other than a step comes between: an evaluation, or waiting for a snapshot.
  void Interrupt() { windows_.Interrupt(); }

  // Waits for the oldest step under way, and reports it.
  struct Done {
    int64_t step = 0;
    double seconds = 0;
    Verdict verdict = {};
  };
  Done Take();
  // The same for all steps under way, when the run ends by an error, maybe on this rank alone:
  // without judging them.
  void TakeWhatRan();
  // Drops the steps under way, since their results are meaningless.
  void Drop();

  // Adds a row to metrics.jsonl and to the reports.
  void Record(const nlohmann::ordered_json& row);
  // Adds a row to samples.jsonl, and a text to TensorBoard.
  void RecordSample(const nlohmann::ordered_json& row);
  // The run goes back to `step` with the state `evaluation`: removes the rows after it.
  void GoBack(int64_t step, const EvaluationState& evaluation, const std::string& text);

  // The process's memory at the step logged last; nothing on the CPU.
  std::optional<int64_t> gpu_bytes() const { return gpu_bytes_; }

  // The source of the energy; without a counter, the reason.
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
  Clock::time_point start_;  // of the oldest of them, or the end of the step before it
  bool follows_ = false;     // it was under way before the step before it was taken
  std::optional<int64_t> gpu_bytes_;
  runtime::FoundEnergyCounter energy_;
  EnergyWindows windows_;
  int64_t steps_ = 0;  // finished by this process
};

}  // namespace plimsoll::trainer
