// The saved set of a training program: the activations that the forward pass writes and a later
// node reads. These activations live through the rest of the forward pass and most of the backward
// pass, so checkpointing acts on them.
//
// The set doesn't contain persistent tensors (always alive), gradients (a fused loss makes some in
// the forward phase), temporaries that only the forward pass reads, and scalars, which are always
// kept because they are small.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/program.h"

namespace plimsoll::checkpointing {

struct SavedTensor {
  graph::TensorId tensor;  // a root tensor, which owns its memory; a node that reads a view of it
                           // counts as reading it
  int64_t bytes;
  int producer;                   // the node that writes the tensor
  int output;                     // index among the outputs of the producer
  int block;                      // the producer's block, as graph::Blocks numbers them
  std::vector<int> forward_uses;  // nodes of the forward pass that read the tensor, ascending
  std::vector<int> uses;          // nodes after the forward pass that read the tensor, ascending,
                                  // not empty
  // Whether the producer may run again. It may not if it also writes a persistent tensor, or if an
  // update reads the tensor.
  bool recomputable;
  // Whether the tensor is an unsharded parameter, gathered from the shards of data ranks.
  bool parameter;
  // Whether the tensor's first reader after the forward pass directly follows its last use in the
  // forward pass, apart from trivial nodes. Then checkpointing would free no memory.
  bool read_at_once;
};

// Sorted by producer. Throws InternalError on a temporary that two nodes write.
std::vector<SavedTensor> FindSaved(const graph::Program& program);

int64_t TotalBytes(const std::vector<SavedTensor>& saved);

// The number of nodes in the forward phase. Throws InternalError unless they come first.
int ForwardNodes(const graph::Program& program);

}  // namespace plimsoll::checkpointing
