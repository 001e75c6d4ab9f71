// Residency on the device of tensors that live on the host: when each is fetched, and when it is
// evicted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/program.h"

namespace plimsoll::optim {

// From a node that needs the tensor to one after which it may go, by their numbers.
struct Stay {
  graph::TensorId tensor = graph::kNoTensor;  // on the host: a whole tensor, or a slice of one
  size_t first = 0, last = 0;
  size_t user = 0;       // the first node that needs it, which is not always `first`
  bool loads = true;     // false: its first node writes the tensor anew
  bool changes = false;  // the tensor is to be stored
};

// Stays that begin at the same node, and so are loaded together.
struct StayGroup {
  size_t first = 0;       // the node at which they begin
  size_t earliest = 0;    // no copy starts before this node
  bool in_block = false;  // is the node of a block what needs them?
  bool at_end = false;    // in the update at the end of a step
  int64_t bytes = 0;      // of all stays
  int64_t to_load = 0;    // of those that load
  std::vector<Stay> stays;
};

// Which tensors of a program are slices by which updates take parameters (optim/host_parameters.h).
class Slices {
 public:
  explicit Slices(const graph::Program& program);

  // What comes and goes with a tensor or a view: the slice that it is or is a view of, or else the
  // tensor that owns the memory.
  graph::TensorId StayingOf(graph::TensorId id) const;
  bool Contains(graph::TensorId id) const {
    return static_cast<size_t>(id) < slices_.size() && slices_[static_cast<size_t>(id)];
  }

 private:
  const graph::Program& program_;
  std::vector<bool> slices_;  // by TensorId
};

// The stays of the tensors that `on_host` (by TensorId) selects, in the order in which they begin.
// Those of a tensor do not overlap. A slice of it has its own, while none of the whole tensor that
// changes it lasts. Accesses in one region of the program are one stay. Regions are:
// - neighbouring nodes of one block (graph/block.h), or outside any block, in the forward pass, or
//   not in it, of whichever micro-step. An update within the backward pass belongs to where it
//   stands, and so does what ranks do together, with what takes in their sum of a gradient;
// - in the update at the end of a step: the update of one parameter, or those of several neighbours
//   that together have at most a quarter of the largest one's bytes. Otherwise, when a matrix
//   stands between two biases, nothing would hide its transfer.
// What ranks do together reads its tensors from its start to its end, and a gradient stays until
// they have summed it. What is gathered one behind the other begins together. The part of a weight
// that is gathered for the backward pass stays for an update soon after. Where nothing else begins
// between stays of a tensor in neighbouring regions, they are one: the last thing in the forward
// pass is the first in the backward pass, whose last gradient may be the first to be used by the
// update. Of other gradients those that are complete last stay until the update, as many as fit
// below the peak of the program. Gradients are not stored behind their last use in a program that
// updates: the next step writes them anew.
std::vector<StayGroup> FindStays(const graph::Program& program, const std::vector<bool>& on_host);

// Whether there is any.
bool HasStays(const graph::Program& program, const std::vector<bool>& on_host);

}  // namespace plimsoll::optim
