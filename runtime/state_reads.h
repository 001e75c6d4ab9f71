// How long programs wait before they change state that a concurrent program reads. For example, a
// snapshot is copied while the steps after it run (DeviceMemory::BoundProgram::concurrent).
//
// The concurrent program passes a mark after each sequence of copy_done nodes, and at its end:
//
//   %a.snapshot = copy_start(%a)
//   %b.snapshot = copy_start(%b)
//   copy_done(%a.snapshot, %a)
//   copy_done(%b.snapshot, %b)      mark 0: a and b may change
//   %c.snapshot = copy_start(%c)
//   copy_done(%c.snapshot, %c)      mark 1: c may change
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/program.h"

namespace plimsoll::runtime {

// The tensors that the node changes and that outlive steps. A node that gathers parameters from
// other ranks is no change: it leaves this rank's own part as it is.
std::vector<graph::TensorId> StateChangedBy(const graph::Program& program, const graph::Node& node);

class StateReads {
 public:
  static constexpr int kNoMark = -1;

  explicit StateReads(const graph::Program& concurrent);

  // For each mark, the index of the node after which it is passed. Indices ascend.
  std::span<const int> marks() const { return marks_; }

  // The mark that the concurrent program must have passed before a node of another program may run.
  int MarkBefore(const graph::Program& program, const graph::Node& node) const;

 private:
  std::vector<int> marks_;
  // Maps the name of a tensor that is read to its mark.
  std::unordered_map<std::string, int> mark_of_;
};

}  // namespace plimsoll::runtime
