// The training loop: steps, evaluations, samples and snapshots of a prepared run, until its end, a
// signal, or an error.
#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/stage.h"
#include "trainer/divergence.h"
#include "trainer/prepared_run.h"
#include "trainer/record/progress.h"
#include "trainer/record/run_directory.h"
#include "trainer/record/run_reports.h"
#include "trainer/record/run_status.h"
#include "trainer/save_and_resume/saver.h"
#include "trainer/step_log.h"
#include "trainer/stop_signal.h"

namespace plimsoll::trainer {

class TrainingLoop {
 public:
  // `run` and `directory` must outlive this object. `resume_command` is
  // TrainOptions::resume_command.
  TrainingLoop(PreparedRun& run, RunDirectory& directory, std::string resume_command);
  ~TrainingLoop();

  // Starts writing the run directory, and announces the run. Call this after all ranks have passed
  // all checks.
  void Begin(const std::string& resolved_yaml, const nlohmann::ordered_json& choices);

  // Trains to the end and writes the results.
  ExitCode Run();

  // The advice after the message of an error that ends the run: how to resume from the newest
  // snapshot. Empty if no snapshot exists or no step is left.
  std::string WayOn() const;

  // Writes the run's final state, if writing is possible.
  void EndStatus(RunStatus::State state, const std::string& reason);

 private:
  void StartWatch();
  void Announce(const CompiledStep& compiled, const memory::DeviceRates& rates) const;
  bool RanToItsEnd();
  void Steps();
  bool StopAsked();
  void EndBySignal();
  void Save(int64_t done);
  void FinishSaving();
  int64_t StepsAhead() const;
  void Step(int64_t step);
  void PassOver(int64_t step);
  void EndProfile(int64_t step);
  void Report();
  void SayStart();
  void EndSaving(int64_t failed);
  void RollBack(const Diverged& diverged);
  void Drain();
  void ReportWhatRan();
  bool Evaluate(int64_t done);
  void Sample();

  PreparedRun& run_;
  RunDirectory& directory_;
  std::string resume_command_;
  double predicted_seconds_ = 0;  // predicted time of a step
  std::string measured_rates_;    // text about measured rates that chose the plan; empty without
  std::optional<RunReports> reports_;  // only the first rank writes reports
  Progress* progress_ = nullptr;
  std::optional<Stage> first_of_process_;
  int64_t steps_done_ = 0;
  int64_t steps_run_ = 0;  // number of steps in this process
  std::atomic<int64_t> step_under_way_ = 0;
  RunStatus status_;
  std::optional<Divergence> divergence_;
  std::optional<StepLog> log_;
  std::optional<StopSignals> signals_;
  std::string signal_;  // the signal that ends the run; empty without one
  bool stopped_ = false;
  bool stopped_by_signal_ = false;
  bool left_results_ = false;
  std::optional<Saver> saver_;  // declared last, because the saver's thread uses the other members
};

}  // namespace plimsoll::trainer
