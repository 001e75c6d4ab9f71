// The mesh of a job's ranks: a list of axes, along each of which ranks share work in one way. Only
// that list says which axes there are: code that works along an axis asks for it by name, and sees
// a mesh of one rank along an axis that the list lacks.
//
// Ranks are numbered with the last axis varying fastest. For data × tensor, rank = data coordinate
// · tensor ranks + tensor coordinate: ranks of one tensor group are neighbours.
//
// One more axis follows from the list: `kEndsAxis`, the ends of an axis of stages (base/axes.h).
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
  int64_t ranks = 1;  // along it
  // Properties of its collectives, from which devices prepare for them, and plans know their cost:
  bool gathers_beside_work = false;  // other work hides its all-gathers
  bool reduces_maxima = false;       // reduces maxima, not only sums
  bool stages = false;  // ranks run other programs, and send tensors to their neighbours in between

  bool operator==(const MeshAxis&) const = default;
};

class Mesh {
 public:
  Mesh() = default;  // one rank, and no axis
  // The last axis varies fastest. InternalError when two axes have one name, or one has no ranks.
  explicit Mesh(std::vector<MeshAxis> axes);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int64_t size() const;  // ranks in all
  bool Has(std::string_view axis) const { return Find(axis) < axes_.size(); }
  // 1 if there is no such axis.
  int64_t ranks(std::string_view axis) const;

  // The coordinate of a rank, 0 ≤ rank < size(), along an axis; 0 if there is no such axis.
  int64_t Coordinate(int64_t rank, std::string_view axis) const;
  // The rank with these coordinates, and 0 along all other axes.
  int64_t RankAt(std::initializer_list<std::pair<std::string_view, int64_t>> coordinates) const;
  // The ranks that differ from this one only along the axis, including itself, in the order of
  // their coordinates.
  std::vector<int64_t> GroupOf(int64_t rank, std::string_view axis) const;

  bool operator==(const Mesh&) const = default;

 private:
  size_t Find(std::string_view axis) const;  // axes_.size() if there is none
  int64_t RanksBehind(size_t axis) const;    // distance of neighbours along the axis

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
  // nullptr if there is none: the rank is alone along that axis.
  T Of(std::string_view axis) const {
    const auto found = Find(axis);
    return found == entries_.end() ? nullptr : found->second;
  }
  // The place of the axis among those that were added; 0 if it is none of them.
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
