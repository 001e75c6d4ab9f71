// A run's snapshots while it trains: the way of each to disk, and which of them stay.
//
// A snapshot is made in two pieces of work, each followed by talk between the ranks:
//   each rank writes its shard; the first one is told of all of them
//   the first rank writes the manifest, gives the snapshot its name, and removes older ones
// With save.async the work is done on a thread of its own while training goes on.
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
#include "trainer/settle/ranks.h"
#include "trainer/snapshot/run_record.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

class Saver {
 public:
  struct Says {
    std::function<void()> progressed;  // now and then, while work goes on; on any thread
    std::function<void(const std::string&)> line;  // news for the user
  };

  // All of these must outlive the saver.
  Saver(const config::RunConfig& config, Session& session, Ranks& ranks, RunDirectory& directory,
        Says says);
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // All ranks call the next five, between two steps. What cannot be written is a warning, and with
  // save.on_error: stop an error (UserError) in any of them.
  //
  // Begins the snapshot of the state after `done` steps; without save.async it is written on
  // return, and the metrics of all these steps must be there before.
  void Begin(int64_t done, const RunRecord& record);
  // The metrics of `done` steps are there, and this is what they left: a part of the record of a
  // snapshot that was begun without waiting for them.
  void Learn(int64_t done, const DivergenceState& state);
  // Goes on with what is under way, waiting for nothing. The metrics of so many steps are there: no
  // snapshot is complete before those of its own steps are.
  void GoOn(int64_t reported);
  // Waits until nothing is under way. The metrics of all steps so far are there.
  void Finish();
  // Drops what is under way: the state that it holds is of no use.
  void GiveUp();

  // Is the newest snapshot of this step, complete? Or, begun() at least?
  bool complete(int64_t done) const { return !under_way_ && saved_at_ == done; }
  bool begun(int64_t done) const {
    return under_way_ ? under_way_->step == done : saved_at_ == done;
  }
  void GoesOnFrom(int64_t step) { saved_at_ = step; }
  // Nothing is under way, and the run goes back to this snapshot: newer ones, of the course that it
  // leaves, are removed.
  void GoBackTo(int64_t step);
  // How long the step took that is made next after `done` steps.
  void StepTook(int64_t done, double seconds);

 private:
  using Clock = std::chrono::steady_clock;
  struct UnderWay {
    int64_t step = 0;
    RunRecord record;
    Clock::time_point start = Clock::now();
    bool shards_written = false;
    std::optional<double> next_step_took = {};  // longer than those before, in seconds
    std::string told = {};                      // of this rank's shard
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
  std::optional<double> usual_seconds_;  // of a step
  snapshots::Folder folder_;
  bool recovered_ = false;  // the folder, from a program that was killed
  int64_t saved_at_ = -1;   // after so many steps
  std::optional<UnderWay> under_way_;
  std::atomic<bool> given_up_ = false;
  std::future<void> work_;  // last: it uses all of these
};

}  // namespace plimsoll::trainer
