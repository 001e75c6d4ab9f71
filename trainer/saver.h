// A run's snapshots while it trains: the way of each to disk, and which of them stay.
//
// A snapshot is made in two pieces of work, each followed by talk between the ranks:
//   each rank writes its shard; the first one is told of all of them
//   the first rank writes the manifest, gives the snapshot its name, and removes older ones
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
#include "trainer/ranks.h"
#include "trainer/run_record.h"
#include "trainer/session.h"

namespace plimsoll::trainer {

class Saver {
 public:
  struct Says {
    std::function<void()> progressed;  // now and then, while work goes on; on any thread
    std::function<void(const std::string&)> line;  // news for the user
  };

  // `config`, `session` and `ranks` must outlive the saver.
  Saver(const config::RunConfig& config, Session& session, Ranks& ranks, Says says);
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // All ranks call these, between two steps.
  //
  // Begins the snapshot of the state after `done` steps. What cannot be written is a warning, and
  // with save.on_error: stop an error (UserError), here or in one of the calls below.
  void Begin(int64_t done, const RunRecord& record);
  // Waits until nothing is under way.
  void Finish();

  // Is the newest snapshot, of those that were begun here or that the run went on from, of this
  // step?
  bool Has(int64_t done) const { return saved_at_ == done; }
  void GoesOnFrom(int64_t step) { saved_at_ = step; }

 private:
  using Clock = std::chrono::steady_clock;
  struct UnderWay {
    int64_t step = 0;
    RunRecord record;
    Clock::time_point start = Clock::now();
    bool shards_written = false;
    std::string told = {};  // of this rank's shard
  };

  void Do(std::function<void()> work);
  void GoOn();
  void Failed(const std::string& reason);
  void WriteShard();
  void Publish(const std::vector<std::string>& shards);
  void Prune() const;

  const config::RunConfig& config_;
  Session& session_;
  Ranks& ranks_;
  Says says_;
  snapshots::Folder folder_;
  bool recovered_ = false;  // the folder, from a program that was killed
  int64_t saved_at_ = -1;   // after so many steps
  std::optional<UnderWay> under_way_;
  std::atomic<bool> given_up_ = false;
  std::future<void> work_;  // last: it uses all of these
};

}  // namespace plimsoll::trainer
