// A run's snapshots while it trains: writes them to disk and removes older ones.
//
// A snapshot is made in two pieces of work, and the ranks communicate after each:
//   each rank writes its shard; the first rank gets a description of every shard
//   the first rank writes the manifest, gives the snapshot its name, and removes older ones
// With save.async the work runs on a thread of its own while training continues.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "snapshots/folder.h"
#include "trainer/config/run_config.h"
#include "trainer/record/run_directory.h"
#include "trainer/resolve/ranks.h"
#include "trainer/save_and_resume/run_record.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

class Saver {
 public:
  struct Says {
    // Called regularly during the work, on any thread.
    std::function<void()> progressed;
    std::function<void(const std::string&)> line;  // prints a message for the user
  };

  // All arguments must outlive the saver.
  Saver(const config::RunConfig& config, Session& session, Ranks& ranks, RunDirectory& directory,
        Says says);
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // All ranks call the next five functions, between two steps. If a snapshot cannot be written, any
  // of these functions warns, or with save.on_error: stop throws a UserError.
  //
  // Begins the snapshot of the state after `done` steps. Without save.async it is written on
  // return, and the metrics of all these steps must be known before the call.
  void Begin(int64_t done, const RunRecord& record);
  // Reports that the metrics of `done` steps are known; `state` follows from them. It completes the
  // record of a snapshot that was begun earlier.
  void Learn(int64_t done, const DivergenceState& state);
  // Advances the snapshot in progress, without waiting. The metrics of `reported` steps are known:
  // a snapshot is completed only after the metrics of its own steps.
  void GoOn(int64_t reported);
  // Waits until no snapshot is in progress. The metrics of all steps so far must be known.
  void Finish();
  // Drops the snapshot in progress, because its state is useless.
  void GiveUp();

  // complete: whether the newest snapshot is of this step and complete. begun: whether the snapshot
  // of this step is complete or in progress.
  bool complete(int64_t done) const { return !under_way_ && saved_at_ == done; }
  bool begun(int64_t done) const {
    return under_way_ ? under_way_->step == done : saved_at_ == done;
  }
  void GoesOnFrom(int64_t step) { saved_at_ = step; }
  // Rolls back to this snapshot, while no snapshot is in progress: removes newer snapshots, which
  // the run has abandoned.
  void GoBackTo(int64_t step);
  // Reports the time of the step that followed `done` steps.
  void StepTook(int64_t done, double seconds);

 private:
  using Clock = std::chrono::steady_clock;
  struct UnderWay {
    int64_t step = 0;
    RunRecord record;
    Clock::time_point start = Clock::now();
    bool shards_written = false;
    std::optional<double> next_step_took = {};  // next step's time minus the usual time, in seconds
    std::string told = {};                      // description of this rank's shard
  };

  void Do(std::function<void()> work);
  void EndWork();
  void Failed(const std::string& reason);
  void WriteShard();
  void Publish(const std::vector<std::string>& shards);
  void Prune() const;

  const config::RunConfig& config_;
  Session& session_;
  Ranks& ranks_;
  RunDirectory& directory_;
  Says says_;
  std::optional<double> usual_seconds_;  // the usual duration of a step
  snapshots::Folder folder_;
  bool recovered_ = false;  // whether leftovers of a killed program were removed
  int64_t saved_at_ = -1;   // number of steps before the newest snapshot
  std::optional<UnderWay> under_way_;
  std::atomic<bool> given_up_ = false;
  std::future<void> work_;  // declared last, because it uses all other members
};

}  // namespace plimsoll::trainer
