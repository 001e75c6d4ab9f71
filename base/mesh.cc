#include "base/mesh.h"

#include "base/axes.h"
#include "base/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kEnds = 2;  // number of ranks along kEndsAxis

bool NeedsEnds(const MeshAxis& axis) {
  return axis.stages && axis.ends_share && axis.ranks > kEnds;
}

}  // namespace

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
  if (i == axes_.size()) return 1;
  return axis == kEndsAxis ? kEnds : axes_[i].ranks;
}

int64_t Mesh::Coordinate(int64_t rank, std::string_view axis) const {
  const size_t i = Find(axis);
  if (i == axes_.size()) return 0;
  const int64_t at = rank / Stride(i) % axes_[i].ranks;
  return axis == kEndsAxis ? at / (axes_[i].ranks - 1) : at;
}

int64_t Mesh::RankAt(
    std::initializer_list<std::pair<std::string_view, int64_t>> coordinates) const {
  int64_t rank = 0;
  for (const auto& [axis, coordinate] : coordinates) {
    if (coordinate < 0 || coordinate >= ranks(axis)) {
      throw InternalError("a mesh has no coordinate " + std::to_string(coordinate) + " along '" +
                          std::string(axis) + "'");
    }
    if (!Has(axis)) continue;
    const size_t i = Find(axis);
    rank += coordinate * Stride(i) * (axis == kEndsAxis ? axes_[i].ranks - 1 : 1);
  }
  return rank;
}

std::vector<int64_t> Mesh::GroupOf(int64_t rank, std::string_view axis) const {
  if (axis == kEndsAxis && Has(axis)) {
    const std::vector<int64_t> stages = GroupOf(rank, axes_[Find(axis)].name);
    if (rank != stages.front() && rank != stages.back()) return {rank};
    return {stages.front(), stages.back()};
  }
  const int64_t stride = Has(axis) ? Stride(Find(axis)) : 0;
  const int64_t first = rank - Coordinate(rank, axis) * stride;
  std::vector<int64_t> group;
  for (int64_t i = 0; i < ranks(axis); ++i) group.push_back(first + i * stride);
  return group;
}

size_t Mesh::Find(std::string_view axis) const {
  // kEndsAxis is found by the axis of stages, whose ends it joins.
  const auto is_it = [&](const MeshAxis& of) {
    return axis == kEndsAxis ? NeedsEnds(of) : of.name == axis;
  };
  return static_cast<size_t>(std::ranges::find_if(axes_, is_it) - axes_.begin());
}

int64_t Mesh::Stride(size_t axis) const {
  int64_t ranks = 1;
  for (size_t i = axis + 1; i < axes_.size(); ++i) ranks *= axes_[i].ranks;
  return ranks;
}

}  // namespace plimsoll
