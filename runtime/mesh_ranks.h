// One rank of a mesh, and those it works with: a group of ranks for each axis, and a communicator
// between their devices.
#pragma once

#include <memory>
#include <vector>

#include "base/mesh.h"
#include "ops/axis.h"
#include "runtime/device.h"
#include "runtime/world.h"

namespace plimsoll::runtime {

class MeshRanks {
 public:
  // All ranks of `all`, which outlives this, call. InternalError unless the mesh has as many.
  MeshRanks(RankGroup& all, Mesh mesh);

  // Makes the communicators between the ranks' devices, which outlive them. All ranks call.
  // `channels`: of each, at most; 0: as many as NCCL likes.
  void Connect(Device& device, int channels);

  const Mesh& mesh() const { return position_.mesh; }
  const MeshPosition& position() const { return position_; }
  // nullptr where this rank is alone along the axis.
  const AxisGroups& groups() const { return groups_; }
  const ops::AxisCommunicators& communicators() const { return communicators_; }

 private:
  MeshPosition position_;
  // By axis, in the mesh's order.
  std::vector<std::unique_ptr<RankGroup>> own_groups_;
  std::vector<std::unique_ptr<ops::Communicator>> own_communicators_;
  AxisGroups groups_;
  ops::AxisCommunicators communicators_;
};

}  // namespace plimsoll::runtime
