#include "base/mesh.h"

#include "base/error.h"

namespace plimsoll {

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
  for (size_t i = 0; i < axes_.size(); ++i) {
    const MeshAxis& axis = axes_[i];
    if (Find(axis.name) < i) throw InternalError("a mesh has two axes '" + axis.name + "'");
    if (axis.ranks < 1) {
      throw InternalError("a mesh has " + std::to_string(axis.ranks) + " ranks along '" +
                          axis.name + "'");
    }
  }
}

int64_t Mesh::size() const {
  int64_t ranks = 1;
  for (const MeshAxis& axis : axes_) ranks *= axis.ranks;
  return ranks;
}

int64_t Mesh::ranks(std::string_view axis) const {
  const size_t i = Find(axis);
  return i < axes_.size() ? axes_[i].ranks : 1;
}

int64_t Mesh::Coordinate(int64_t rank, std::string_view axis) const {
  const size_t i = Find(axis);
  return i < axes_.size() ? rank / RanksBehind(i) % axes_[i].ranks : 0;
}

int64_t Mesh::RankAt(
    std::initializer_list<std::pair<std::string_view, int64_t>> coordinates) const {
  int64_t rank = 0;
  for (const auto& [axis, coordinate] : coordinates) {
    if (coordinate < 0 || coordinate >= ranks(axis)) {
      throw InternalError("a mesh has no coordinate " + std::to_string(coordinate) + " along '" +
                          std::string(axis) + "'");
    }
    if (Has(axis)) rank += coordinate * RanksBehind(Find(axis));
  }
  return rank;
}

std::vector<int64_t> Mesh::GroupOf(int64_t rank, std::string_view axis) const {
  const int64_t stride = Has(axis) ? RanksBehind(Find(axis)) : 0;
  const int64_t first = rank - Coordinate(rank, axis) * stride;
  std::vector<int64_t> group;
  for (int64_t i = 0; i < ranks(axis); ++i) group.push_back(first + i * stride);
  return group;
}

size_t Mesh::Find(std::string_view axis) const {
  size_t i = 0;
  while (i < axes_.size() && axes_[i].name != axis) ++i;
  return i;
}

int64_t Mesh::RanksBehind(size_t axis) const {
  int64_t ranks = 1;
  for (size_t i = axis + 1; i < axes_.size(); ++i) ranks *= axes_[i].ranks;
  return ranks;
}

}  // namespace plimsoll
