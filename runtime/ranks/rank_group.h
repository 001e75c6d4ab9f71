// Groups of a job's ranks, and messages between the ranks' hosts: plans, configurations, ids.
// Tensors are sent through communicators (ops/collectives/communicator.h), which are made here for
// a group.
//
// Every rank of a group makes the same calls in the same order; each call returns when this rank's
// part is done. Calls may come from any thread, one at a time. A failure of MPI is an
// InternalError.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mesh.h"
#include "ops/collectives/communicator.h"
#include "runtime/stage_link.h"

namespace plimsoll::runtime {

// Some of the job's ranks, numbered from 0. Must be destroyed before the World that it comes from.
class RankGroup {
 public:
  virtual ~RankGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Returns on every rank the text that rank `root` gives. The text may have any bytes; texts of
  // other ranks are ignored.
  virtual std::string Broadcast(std::string_view text, int root = 0) = 0;
  // Returns on every rank the texts of all ranks, in the order of the ranks. The texts' lengths may
  // differ.
  virtual std::vector<std::string> Gather(std::string_view text) = 0;
  virtual void Barrier() = 0;

  // Ranks that give the same color (≥ 0) form a group. They are ordered by their keys, and by their
  // ranks in this group if keys are equal.
  virtual std::unique_ptr<RankGroup> Split(int color, int key) = 0;

  // A communicator between the CPUs of these ranks. Allocates 4 MiB for reductions, or nothing for
  // a single rank.
  virtual std::unique_ptr<ops::Communicator> MakeCpuCommunicator() = 0;

  // A link between the CPUs of these ranks; each rank is a stage of a pipeline, in the order of
  // ranks. All of them call. `ranks`: their ranks in the job, for messages. Throws InternalError
  // for a single rank.
  virtual std::unique_ptr<StageLink> MakeCpuStageLink(std::vector<int64_t> ranks) = 0;
};

// The groups that one rank belongs to, one for each axis of the mesh. nullptr if the rank is alone
// along the axis.
using AxisGroups = ByAxis<RankGroup*>;

// A group that consists of the calling rank alone.
std::unique_ptr<RankGroup> MakeGroupOfOne();

}  // namespace plimsoll::runtime
