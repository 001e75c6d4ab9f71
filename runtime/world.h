// The ranks of a job as mpirun or srun started them, and the talk between their hosts: plans,
// configurations, ids. Tensors go through communicators (ops/communicator.h), which are made here
// for groups of ranks.
//
// Every rank of a group makes the same calls in the same order; each returns when this rank's part
// is done. Calls may come from any thread, one at a time. A failure of MPI is an InternalError.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mesh.h"
#include "ops/communicator.h"
#include "runtime/watchdog.h"

namespace plimsoll::runtime {

// Some of the job's ranks, numbered from 0. Ends before the World it comes from.
class RankGroup {
 public:
  virtual ~RankGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The text that rank `root` gives, on every rank. Any bytes; what others give is ignored.
  virtual std::string Broadcast(std::string_view text, int root = 0) = 0;
  // What each rank gives, in the order of the ranks, on every rank. Lengths may differ.
  virtual std::vector<std::string> Gather(std::string_view text) = 0;
  virtual void Barrier() = 0;

  // Ranks that give the same colour (≥ 0) make a group, in the order of their keys, and of their
  // ranks here where keys are equal.
  virtual std::unique_ptr<RankGroup> Split(int color, int key) = 0;

  // Between the CPUs of these ranks. Has memory of its own for reductions: 4 MiB, none alone.
  virtual std::unique_ptr<ops::Communicator> MakeCpuCommunicator() = 0;
};

// The groups that one rank belongs to, one for each axis of the mesh; nullptr: it is alone there.
using AxisGroups = ByAxis<RankGroup*>;

// All ranks. One object, made early in main().
class World : public RankGroup {
 public:
  // With more than one rank, by the launcher's word in the environment, starts MPI; alone, it never
  // touches it. UserError when the launcher and this build have different kinds of MPI. Watches
  // over the start (Watch()) with this patience in seconds; 0: it doesn't.
  explicit World(double patience = 0);
  // Ends MPI, for which it waits for the other ranks. While an exception passes through, it
  // doesn't: the launcher then sees a rank leave too early, and ends the others.
  ~World() override;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const override { return all_->rank(); }
  int size() const override { return all_->size(); }
  std::string Broadcast(std::string_view text, int root = 0) override;
  std::vector<std::string> Gather(std::string_view text) override;
  void Barrier() override;
  std::unique_ptr<RankGroup> Split(int color, int key) override { return all_->Split(color, key); }
  std::unique_ptr<ops::Communicator> MakeCpuCommunicator() override {
    return all_->MakeCpuCommunicator();
  }

  // Among the ranks on this rank's host, which share memory: what a GPU is chosen by.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  const std::string& host() const { return host_; }  // its name

  // From now on, and instead of a watch before: when neither Progress() is called nor a call above
  // comes back for `patience` seconds, all ranks are ended, with a line that says so and what
  // `doing` gives ("in step 3"). Alone there is nobody to wait for, and no watch.
  void Watch(double patience, std::function<std::string()> doing);
  void Progress();
  void StopWatching();

  // Ends this process and, through the launcher, all others, within seconds. From any thread, even
  // while another waits for a rank that is gone. Nothing is cleaned up: what the user is to read
  // has been written before. The launcher's exit code is `code`, which is not 0.
  [[noreturn]] void Abort(int code);

 private:
  std::unique_ptr<RankGroup> all_;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::string host_;
  std::atomic<bool> mpi_ = false;
  std::mutex watched_;  // steps and savers report on threads of their own
  std::optional<Watchdog> watchdog_;
  int exceptions_ = 0;  // passing through when this was made
};

// How many ranks the launcher started, by its variables in the environment: Open MPI's mpirun,
// those with PMI (MPICH, Intel MPI, MVAPICH), and srun with PMIx or PMI. 1 without a launcher, and
// in a batch script of Slurm. UserError when srun started several tasks that cannot find each
// other.
int LaunchedRanks(const std::function<const char*(const char*)>& environment);

// A group of the one rank that calls.
std::unique_ptr<RankGroup> MakeGroupOfOne();

}  // namespace plimsoll::runtime
