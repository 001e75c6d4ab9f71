// How long programs wait before they change state that a program beside them reads: a snapshot is
// copied while the steps behind it run (DeviceMemory::BoundProgram::beside).
//
// The program beside them passes a mark behind each run of copy_done nodes, and behind its end:
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

// The tensors that the node changes and that outlive steps. Gathering parameters from other ranks
// is no change: it leaves this rank's own part as it is.
std::vector<graph::TensorId> StateChangedBy(const graph::Program& program, const graph::Node& node);

class StateReads {
 public:
  static constexpr int kNoMark = -1;

  explicit StateReads(const graph::Program& beside);

  // By mark: the node behind which it is passed. They ascend.
  std::span<const int> marks() const { return marks_; }

  // The mark that must be passed before a node of another program may run.
  int MarkBefore(const graph::Program& program, const graph::Node& node) const;

 private:
  std::vector<int> marks_;
  std::unordered_map<std::string, int> mark_of_;  // by the name of what is read
};

}  // namespace plimsoll::runtime
