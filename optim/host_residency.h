// Residency on the device of tensors that are placed on the host: when each tensor is fetched, and
// when it is evicted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/program.h"

namespace plimsoll::optim {

// A range of nodes (indices) during which a tensor has a copy on the device.
struct Residency {
  graph::TensorId tensor = graph::kNoTensor;  // the tensor on the host, or a slice of one
  size_t first = 0, last = 0;
  size_t user = 0;       // the first node that needs the copy; it may come after `first`
  bool loads = true;     // whether the tensor is fetched; false if the first node overwrites it
  bool changes = false;  // whether the copy is written back to the host
};

// Residencies that begin at the same node, whose tensors are fetched together.
struct FetchGroup {
  size_t first = 0;       // the node at which the residencies begin
  size_t earliest = 0;    // no copy starts before this node
  bool in_block = false;  // whether a node of a block needs the tensors
  bool at_end = false;    // whether the residencies are in the update at the end of a step
  int64_t bytes = 0;      // bytes of all tensors
  int64_t to_load = 0;    // bytes of the tensors that are fetched
  std::vector<Residency> residencies;
};

// The tensors of a program that are slices of updates (SliceUpdates, optim/host_parameters.h).
class Slices {
 public:
  explicit Slices(const graph::Program& program);

  // The unit of residency of `id`: its slice, or else its root tensor.
  graph::TensorId UnitOf(graph::TensorId id) const;
  bool Contains(graph::TensorId id) const {
    return static_cast<size_t>(id) < slices_.size() && slices_[static_cast<size_t>(id)];
  }

 private:
  const graph::Program& program_;
  std::vector<bool> slices_;  // whether each tensor is a slice, indexed by TensorId
};

// Returns the residencies of the tensors that `on_host` (by TensorId) selects, in the order in
// which residencies begin.
//
// Residencies of one tensor do not overlap. A slice has separate residencies, except during a
// residency of the unsliced tensor that changes the tensor.
//
// The accesses of a tensor within one region of the program share a residency. A region is:
// - in the forward and the backward pass of any micro-step: neighbouring nodes of one block
//   (graph/block.h), or neighbouring nodes outside any block. Three kinds of nodes belong to the
//   region around them: collectives, nodes that read gradients summed by collectives, and updates
//   within the backward pass;
// - in the update at the end of a step: the update of one parameter, or of several neighbouring
//   parameters that together have at most a quarter of the bytes of the largest update. Without
//   such groups, the transfer of a matrix whose neighbours are biases would overlap with almost no
//   computation.
//
// Five rules extend residencies beyond one region:
// - the tensors of a collective stay from its start to its end, and a gradient until it is summed;
// - consecutive all-gathers are fetched as one group;
// - a shard that was gathered for the backward pass is kept for an update at most two regions
// later;
// - residencies of a tensor in neighbouring regions are merged if no other residency begins between
//   them: the last block of the forward pass is the first of the backward pass;
// - the gradients that are completed last are kept until the update, as many as fit below the
//   program's peak. In a program that updates, gradients are not written back after their last use:
//   the next step overwrites them.
std::vector<FetchGroup> FindResidencies(const graph::Program& program,
                                        const std::vector<bool>& on_host);

// Whether the program accesses any tensor that `on_host` selects.
bool HasResidencies(const graph::Program& program, const std::vector<bool>& on_host);

}  // namespace plimsoll::optim
