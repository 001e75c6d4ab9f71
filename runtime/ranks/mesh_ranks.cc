#include "runtime/ranks/mesh_ranks.h"

#include <string>
#include <utility>
#include <vector>

#include "base/axes.h"
#include "base/error.h"

namespace plimsoll::runtime {
MeshRanks::MeshRanks(RankGroup& all, Mesh mesh) : position_{std::move(mesh), all.rank()} {
  if (position_.mesh.size() != all.size()) {
    throw InternalError(std::to_string(all.size()) + " ranks are no mesh of " +
                        std::to_string(position_.mesh.size()));
  }
  for (const MeshAxis& axis : AllAxes(position_.mesh)) {
    std::unique_ptr<RankGroup>& group = own_groups_.emplace_back();
    if (axis.ranks > 1) {
      // The color of a group is its first rank.
      const std::vector<int64_t> members = position_.mesh.GroupOf(position_.rank, axis.name);
      group =
          all.Split(static_cast<int>(members.front()), static_cast<int>(position_.at(axis.name)));
      if (members.size() == 1) group.reset();
    }
    groups_.Add(axis.name, group.get());
  }
  own_communicators_.resize(own_groups_.size());
}

void MeshRanks::Connect(Device& device, int channels) {
  communicators_ = {};
  stage_link_.reset();
  const std::vector<MeshAxis> axes = AllAxes(position_.mesh);
  for (size_t i = 0; i < own_groups_.size(); ++i) {
    const MeshAxis& axis = axes[i];
    if (own_groups_[i] != nullptr) {
      own_communicators_[i] = device.MakeCommunicator(*own_groups_[i], axis, channels);
    }
    communicators_.Add(axis.name, own_communicators_[i].get());
  }
  for (size_t i = 0; i < position_.mesh.axes().size(); ++i) {
    const MeshAxis& axis = axes[i];
    if (own_groups_[i] == nullptr || !axis.stages) continue;
    if (stage_link_ != nullptr) throw InternalError("a mesh with stages along two axes");
    stage_link_ = device.MakeStageLink(*own_groups_[i],
                                       position_.mesh.GroupOf(position_.rank, axis.name), channels);
  }
}

}  // namespace plimsoll::runtime
