// One rank of a mesh and the groups it belongs to. Each axis has a group of ranks, and a
// communicator between their devices.
#pragma once

#include <memory>
#include <vector>

#include "base/mesh.h"
#include "ops/collectives/axis.h"
#include "runtime/device.h"
#include "runtime/ranks/rank_group.h"
#include "runtime/stage_link.h"

namespace plimsoll::runtime {

class MeshRanks {
 public:
  // All ranks of `all` call; `all` must outlive this object. Throws InternalError unless the mesh
  // has the size of `all`.
  MeshRanks(RankGroup& all, Mesh mesh);

  // Makes the communicators and the stage link between the ranks' devices, which must outlive them.
  // All ranks call. `channels`: the most channels of each communicator; 0: NCCL's own choice.
  void Connect(Device& device, int channels);

  const Mesh& mesh() const { return position_.mesh; }
  const MeshPosition& position() const { return position_; }
  // The group is nullptr for an axis along which this rank is alone.
  const AxisGroups& groups() const { return groups_; }
  const ops::AxisCommunicators& communicators() const { return communicators_; }
  // The link between this rank's stage and its neighbours; nullptr without stages.
  StageLink* stage_link() const { return stage_link_.get(); }

 private:
  MeshPosition position_;
  // One group for each axis, in the mesh's order.
  std::vector<std::unique_ptr<RankGroup>> own_groups_;
  std::vector<std::unique_ptr<ops::Communicator>> own_communicators_;
  std::unique_ptr<StageLink> stage_link_;
  AxisGroups groups_;
  ops::AxisCommunicators communicators_;
};

}  // namespace plimsoll::runtime
