// The steps that the device was handed, and what is told of those that it is done with: a row of
// metrics.jsonl and of the reports each, and a line for the user.
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
#include "trainer/settle/ranks.h"
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

  // A step begins, for the host; and it is the device's.
  void Begin();
  void Handed(int64_t step, std::span<const ObjectiveStep> objectives);
  int64_t under_way() const { return std::ssize(under_way_); }  // handed, and without a row
  // Something else than a step comes between: an evaluation, a snapshot that is waited for.
  void Interrupt() { windows_.Interrupt(); }

  // Waits for the step under way that was handed first, and tells of it.
  struct Done {
    int64_t step = 0;
    double seconds = 0;
    Verdict verdict = {};
  };
  Done Take();
  // The same for all of them when the run ends by an error, maybe on this rank alone: nothing is
  // judged.
  void TakeWhatRan();
  // Forgets those under way: they say nothing.
  void Drop();

  // A row of metrics.jsonl and of the reports.
  void Record(const nlohmann::ordered_json& row);
  // A row of samples.jsonl, and a text for TensorBoard.
  void RecordSample(const nlohmann::ordered_json& row);
  // The run goes back to that step, behind these evaluations: the rows behind go.
  void GoBack(int64_t step, const EvaluationState& evaluation, const std::string& text);

  // Of the process, at the step logged last; nothing on the CPU.
  std::optional<int64_t> gpu_bytes() const { return gpu_bytes_; }

  // Where the energy comes from; without a counter, why there is none.
  const runtime::FoundEnergyCounter& energy() const { return energy_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct UnderWay {
    int64_t number = 0;
    std::vector<ObjectiveStep> objectives;
    int64_t tokens() const { return objectives.front().tokens; }
  };

  Done Take(bool alone);
  StepReport ReportOf(const UnderWay& step, std::span<const StepMetrics> metrics) const;
  void Keep(const std::function<void()>& append) const;
  std::optional<double> Mfu(double tokens_per_second) const;

  Parts parts_;
  const std::vector<EvaluatedMetric> metrics_;
  std::deque<UnderWay> under_way_;
  Clock::time_point start_;  // of the first of them, or when the step before it ended
  std::optional<int64_t> gpu_bytes_;
  runtime::FoundEnergyCounter energy_;
  EnergyWindows windows_;
  int64_t steps_ = 0;  // done, of this process
};

}  // namespace plimsoll::trainer
