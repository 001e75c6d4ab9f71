// The ranks of a job as mpirun or srun started them: the group of all (runtime/ranks/rank_group.h),
// the GPU of each, a watch over them, and their end.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/ranks/rank_group.h"
#include "runtime/ranks/watchdog.h"

namespace plimsoll::runtime {

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
  std::unique_ptr<StageLink> MakeCpuStageLink(std::vector<int64_t> ranks) override {
    return all_->MakeCpuStageLink(std::move(ranks));
  }

  // This rank's number among the ranks on its host, which share memory; selects its GPU.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  int host_leader() const { return host_leader_; }   // the first of these ranks
  const std::string& host() const { return host_; }  // its name

  // Makes only this rank's GPU visible to CUDA, so that no other GPU gets a context of this
  // process: of the visible GPUs, the one with this rank's number on its host. Call it before
  // anything uses CUDA. If a launcher has given the rank a single GPU, that is the one; a rank
  // without a GPU left sees none.
  void ChooseOwnGpu() const;

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

}  // namespace plimsoll::runtime
