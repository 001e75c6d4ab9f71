// The saved set of a training program: activations that the forward pass writes and something
// after it reads. They wait through the rest of the forward pass and most of the backward pass, so
// they are what checkpointing is about.
//
// Not in it: persistent tensors (always there), gradients (a fused loss makes some in the forward
// phase), and temporaries that only the forward pass reads.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/program.h"

namespace plimsoll::checkpointing {

struct SavedTensor {
  graph::TensorId tensor;  // owns its memory; reading a view of it counts as reading it
  int64_t bytes;
  int producer;                   // node that writes it; its scope says where in the model
  int output;                     // which of that node's outputs it is
  int block;                      // of the producer, as graph::Blocks numbers them
  std::vector<int> forward_uses;  // nodes of the forward pass that read it, ascending
  std::vector<int> uses;          // nodes after the forward pass that read it, ascending, not empty
  // May its producer run again? Not when it also writes something persistent,
  // or when an update reads the tensor.
  bool recomputable;
  // Is it a whole parameter, gathered from the parts that data ranks have of it?
  bool parameter;
  // Trivial nodes apart, the first node after the forward pass that reads it directly follows the
  // last one of the forward pass that touches it: it needn't wait, so there is nothing to gain.
  bool read_at_once;
};

// In order of their producers. InternalError on a temporary that two nodes write.
std::vector<SavedTensor> FindSaved(const graph::Program& program);

int64_t TotalBytes(const std::vector<SavedTensor>& saved);

// The number of nodes in the forward phase, which comes first.
int ForwardNodes(const graph::Program& program);

}  // namespace plimsoll::checkpointing
