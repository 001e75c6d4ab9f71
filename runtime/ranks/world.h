// The ranks of a job as mpirun or srun started them: the group of all ranks
// (runtime/ranks/rank_group.h), the GPU of each rank, a watchdog over them, and their end.
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

// The group of all ranks. main() makes the only World early.
class World : public RankGroup {
 public:
  // Starts MPI if the launcher's variables in the environment say that there are several ranks;
  // with one rank MPI is never used. Throws a UserError if no MPI library is found, or if it is not
  // the launcher's kind of MPI. The start is watched like Watch(), with `patience` in seconds; 0:
  // no watch.
  explicit World(double patience = 0);
  // Ends MPI, which waits for the other ranks. While an exception unwinds the stack, MPI is not
  // ended: the launcher then sees a rank leave too early, and ends the other ranks.
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

  // This rank's index among the ranks on its host, which share memory. It selects the rank's GPU.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  int host_leader() const { return host_leader_; }   // the first rank on this host
  const std::string& host() const { return host_; }  // the host's name

  // Makes only this rank's GPU visible to CUDA, so that no other GPU gets a context of this
  // process. The rank's GPU is the visible GPU at the index local_rank(). If a launcher has given
  // the rank a single GPU, it is that one. A rank for which no GPU is left sees no GPU. Call this
  // before anything uses CUDA.
  void ChooseOwnGpu() const;

  // Replaces any earlier watch. If for `patience` seconds Progress() is not called and no call
  // above returns, all ranks are ended, with a message that includes the text of `doing` ("in step
  // 3"). A single rank waits for nobody and has no watch.
  void Watch(double patience, std::function<std::string()> doing);
  void Progress();
  void StopWatching();

  // Ends this process and, through the launcher, all others, within seconds. Any thread may call
  // it, even while another thread waits for a rank that is gone. Nothing is cleaned up: write
  // messages to the user before. The launcher's exit code is `code`, which is not 0.
  [[noreturn]] void Abort(int code);

 private:
  std::unique_ptr<RankGroup> all_;
  int local_rank_ = 0;
  int local_size_ = 1;
  int host_leader_ = 0;
  std::string host_;
  std::atomic<bool> mpi_ = false;
  std::mutex watched_;  // training steps and snapshot threads report at the same time
  std::optional<Watchdog> watchdog_;
  int exceptions_ = 0;  // exceptions in flight when this World was made
};

// The number of ranks that the launcher started, according to its variables in the environment.
// Known launchers are Open MPI's mpirun, those with PMI (MPICH, Intel MPI, MVAPICH), and srun with
// PMIx or PMI. 1 without a launcher and in a batch script of Slurm. Throws a UserError if srun
// started several tasks that cannot find each other.
int LaunchedRanks(const std::function<const char*(const char*)>& environment);

}  // namespace plimsoll::runtime
