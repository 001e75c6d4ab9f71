#include "runtime/ranks/mesh_ranks.h"

#include <string>
#include <utility>

#include "base/error.h"

namespace plimsoll::runtime {

MeshRanks::MeshRanks(RankGroup& all, Mesh mesh) : position_{std::move(mesh), all.rank()} {
  if (position_.mesh.size() != all.size()) {
    throw InternalError(std::to_string(all.size()) + " ranks are no mesh of " +
                        std::to_string(position_.mesh.size()));
  }
  for (const MeshAxis& axis : position_.mesh.axes()) {
    std::unique_ptr<RankGroup>& group = own_groups_.emplace_back();
    if (axis.ranks > 1) {
      // A group's colour is its first rank.
      const int64_t first = position_.mesh.GroupOf(position_.rank, axis.name).front();
      group = all.Split(static_cast<int>(first), static_cast<int>(position_.at(axis.name)));
    }
    groups_.Add(axis.name, group.get());
  }
  own_communicators_.resize(own_groups_.size());
}

void MeshRanks::Connect(Device& device, int channels) {
  communicators_ = {};
  stage_link_.reset();
  for (size_t i = 0; i < own_groups_.size(); ++i) {
    const MeshAxis& axis = position_.mesh.axes()[i];
    if (own_groups_[i] != nullptr) {
      own_communicators_[i] = device.MakeCommunicator(*own_groups_[i], axis, channels);
    }
    communicators_.Add(axis.name, own_communicators_[i].get());
  }
  for (size_t i = 0; i < own_groups_.size(); ++i) {
    const MeshAxis& axis = position_.mesh.axes()[i];
    if (own_groups_[i] == nullptr || !axis.stages) continue;
    if (stage_link_ != nullptr) throw InternalError("a mesh with stages along two axes");
    stage_link_ = device.MakeStageLink(*own_groups_[i],
                                       position_.mesh.GroupOf(position_.rank, axis.name), channels);
  }
}

}  // namespace plimsoll::runtime
