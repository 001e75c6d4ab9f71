// The ranks of a job as mpirun or srun started them, and messages between their hosts: plans,
// configurations, ids. Tensors go through communicators (ops/collectives/communicator.h), which are
// made here for groups of ranks.
//
// Every rank of a group makes the same calls in the same order; each call returns when this rank's
// part is done. Calls may come from any thread, one at a time. A failure of MPI is an
// InternalError.
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
#include "ops/collectives/communicator.h"
#include "runtime/ranks/watchdog.h"

namespace plimsoll::runtime {

// Some of the job's ranks, numbered from 0. Must be destroyed before the World that it comes from.
class RankGroup {
 public:
  virtual ~RankGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Returns on every rank the text that rank `root` gives. Any bytes; texts of other ranks are
  // ignored.
  virtual std::string Broadcast(std::string_view text, int root = 0) = 0;
  // Returns on every rank what each rank gives, in the order of the ranks. Lengths may differ.
  virtual std::vector<std::string> Gather(std::string_view text) = 0;
  virtual void Barrier() = 0;

  // Ranks that give the same colour (≥ 0) form a group, ordered by their keys, and by their ranks
  // here where keys are equal.
  virtual std::unique_ptr<RankGroup> Split(int color, int key) = 0;

  // A communicator between the CPUs of these ranks. Allocates 4 MiB for reductions, or nothing for
  // a single rank.
  virtual std::unique_ptr<ops::Communicator> MakeCpuCommunicator() = 0;
};

// The groups that one rank belongs to, one for each axis of the mesh; nullptr: it is alone there.
using AxisGroups = ByAxis<RankGroup*>;

// All ranks. One object, made early in main().
class World : public RankGroup {
 public:
  // If the launcher's variables in the environment say that there are several ranks, starts MPI;
  // with one rank it never uses MPI. Throws UserError when there is no library of MPI, or it is
  // another kind of MPI than the launcher's. Watches over the start (Watch()) with `patience` in
  // seconds; 0: doesn't watch.
  explicit World(double patience = 0);
  // Ends MPI, which waits for the other ranks. While an exception passes through, it doesn't: the
  // launcher then sees a rank leave too early, and ends the others.
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

  // This rank's number among the ranks on its host, which share memory; selects its GPU.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  int host_leader() const { return host_leader_; }   // the first of these ranks
  const std::string& host() const { return host_; }  // its name

  // Replaces any earlier watch: when neither Progress() is called nor a call above returns for
  // `patience` seconds, all ranks are ended, with a line that says so and includes the text of
  // `doing` ("in step 3"). A single rank has nobody to wait for, and no watch.
  void Watch(double patience, std::function<std::string()> doing);
  void Progress();
  void StopWatching();

  // Ends this process and, through the launcher, all others, within seconds. May be called from any
  // thread, even while another waits for a rank that is gone. Nothing is cleaned up: messages to
  // the user must have been written before. The launcher's exit code is `code`, which is not 0.
  [[noreturn]] void Abort(int code);

 private:
  std::unique_ptr<RankGroup> all_;
  int local_rank_ = 0;
  int local_size_ = 1;
  int host_leader_ = 0;
  std::string host_;
  std::atomic<bool> mpi_ = false;
  std::mutex watched_;  // steps and savers report on threads of their own
  std::optional<Watchdog> watchdog_;
  int exceptions_ = 0;  // exceptions in flight when this was made
};

// How many ranks the launcher started, according to its variables in the environment: Open MPI's
// mpirun, those with PMI (MPICH, Intel MPI, MVAPICH), and srun with PMIx or PMI. 1 without a
// launcher and in a batch script of Slurm. Throws UserError when srun started several tasks that
// cannot find each other.
int LaunchedRanks(const std::function<const char*(const char*)>& environment);

// A group that consists of the calling rank alone.
std::unique_ptr<RankGroup> MakeGroupOfOne();

}  // namespace plimsoll::runtime
