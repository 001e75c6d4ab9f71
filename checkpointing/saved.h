// The saved set of a training program: activations that the forward pass writes and a later node
// reads. They live through the rest of the forward pass and most of the backward pass, so
// checkpointing is about them.
//
// It doesn't contain persistent tensors (always alive), gradients (a fused loss makes some in the
// forward phase), temporaries that only the forward pass reads, and scalars: these are always kept,
// as their memory is worth no node.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/program.h"

namespace plimsoll::checkpointing {

struct SavedTensor {
  graph::TensorId tensor;  // owns its memory; reading its views counts as reading it
  int64_t bytes;
  int producer;                   // node that writes it; its scope says where in the model
  int output;                     // which of that node's outputs it is
  int block;                      // of the producer, as graph::Blocks numbers them
  std::vector<int> forward_uses;  // nodes of the forward pass that read it, ascending
  std::vector<int> uses;          // nodes after the forward pass that read it, ascending, not empty
  // Whether its producer may run again. Not if the producer also writes something persistent, or an
  // update reads the tensor.
  bool recomputable;
  // Whether it is a whole parameter, gathered from the parts of data ranks.
  bool parameter;
  // Whether, apart from trivial nodes, its first reader after the forward pass directly follows its
  // last use in the forward pass: then it needn't wait, and there is nothing to gain.
  bool read_at_once;
};

// Sorted by producer. Throws InternalError on a temporary that two nodes write.
std::vector<SavedTensor> FindSaved(const graph::Program& program);

int64_t TotalBytes(const std::vector<SavedTensor>& saved);

// The number of nodes in the forward phase. Throws InternalError unless they come first.
int ForwardNodes(const graph::Program& program);

}  // namespace plimsoll::checkpointing
