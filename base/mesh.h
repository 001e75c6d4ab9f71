// The mesh of a job's ranks: a list of axes. Along each axis, ranks share work in one way. Only the
// list says which axes exist. Code that works along an axis asks for it by name, and sees a single
// rank if the list lacks the axis.
//
// Ranks are numbered with the last axis varying fastest. For data × tensor, rank = data coordinate
// · tensor ranks + tensor coordinate: ranks of one tensor group are neighbours.
//
// One more axis follows from the list: `kEndsAxis`, for the first and last of an axis's stages, if
// these share tables (base/axes.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll {

struct MeshAxis {
  std::string name;   // as in the attribute "axis" of collectives: "data"
  int64_t ranks = 1;  // number of ranks along the axis
  // Properties of the axis's collectives. Devices prepare for them, and plans compute costs from
  // them.
  bool gathers_overlap = false;  // other work overlaps its all-gathers
  bool reduces_maxima = false;   // reduces maxima, not only sums
  bool stages = false;           // ranks run different programs and send tensors to neighbours
  bool ends_share = false;       // the first and the last of the stages share tables

  bool operator==(const MeshAxis&) const = default;
};

class Mesh {
 public:
  Mesh() = default;  // one rank, and no axis
  // The last axis varies fastest. Throws InternalError if two axes have one name, or if one has no
  // ranks.
  explicit Mesh(std::vector<MeshAxis> axes);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int64_t size() const;  // number of all ranks
  bool Has(std::string_view axis) const { return Find(axis) < axes_.size(); }
  // The number of ranks along the axis; 1 if the list lacks it.
  int64_t ranks(std::string_view axis) const;

  // The coordinate of a rank, 0 ≤ rank < size(), along an axis; 0 if the list lacks it.
  int64_t Coordinate(int64_t rank, std::string_view axis) const;
  // The rank with these coordinates, and 0 along all other axes.
  int64_t RankAt(std::initializer_list<std::pair<std::string_view, int64_t>> coordinates) const;
  // The ranks that differ from `rank` only along the axis, including `rank`, in the order of their
  // coordinates.
  std::vector<int64_t> GroupOf(int64_t rank, std::string_view axis) const;

  bool operator==(const Mesh&) const = default;

 private:
  size_t Find(std::string_view axis) const;  // axes_.size() if the list lacks it
  int64_t Stride(size_t axis) const;         // distance between neighbours along the axis

  std::vector<MeshAxis> axes_;
};

// One rank of a mesh.
struct MeshPosition {
  Mesh mesh = {};
  int64_t rank = 0;

  int64_t ranks(std::string_view axis) const { return mesh.ranks(axis); }
  int64_t at(std::string_view axis) const { return mesh.Coordinate(rank, axis); }
};

// A rank's object for each axis of its mesh: a group of ranks, a communicator. T is a pointer.
template <typename T>
class ByAxis {
 public:
  ByAxis() = default;
  ByAxis(std::initializer_list<std::pair<std::string, T>> entries) : entries_(entries) {}

  void Add(std::string axis, T what) { entries_.emplace_back(std::move(axis), what); }
  bool empty() const { return entries_.empty(); }
  bool Has(std::string_view axis) const { return Find(axis) != entries_.end(); }
  // The object for the axis; nullptr if the rank is alone along it.
  T Of(std::string_view axis) const {
    const auto found = Find(axis);
    return found == entries_.end() ? nullptr : found->second;
  }
  // The index of the axis among those added; 0 if it was not added.
  size_t NumberOf(std::string_view axis) const {
    return Has(axis) ? static_cast<size_t>(Find(axis) - entries_.begin()) : 0;
  }

 private:
  auto Find(std::string_view axis) const {
    return std::ranges::find(entries_, axis,
                             [](const auto& entry) -> std::string_view { return entry.first; });
  }

  std::vector<std::pair<std::string, T>> entries_;
};

}  // namespace plimsoll
