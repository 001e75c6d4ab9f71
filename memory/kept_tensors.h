// Carried tensors that programs of a step leave to later ones, as the forward pass of a micro-batch
// leaves its activations to the backward pass (graph/phase_cut.h). From its last reader to its next
// writer nobody needs such a tensor's value, and its bytes are free for temporaries.
//
//   forward                      %h = …                      free up to this node
//   micro_step.1.forward                                     needed
//   backward                     … = gelu_backward(…, %h)    free from the next node on
//   micro_step.1.backward, …                                 free
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"

namespace plimsoll::memory {

// How a step runs its programs. All others run between steps.
struct StepOrder {
  std::vector<int> runs;  // indices of programs, in the order in which they run
  // The names of carried tensors whose values only these programs use: neither the host nor another
  // rank reads or writes them.
  std::set<std::string, std::less<>> kept = {};
};

// Whether the value of a kept tensor is needed when a program begins, and when it has ended.
struct KeptNeed {
  bool before = true, after = true;
  bool throughout() const { return before && after; }
};
// Needs by the tensor's name. A tensor that is absent is not a kept tensor.
using KeptNeeds = std::map<std::string, KeptNeed, std::less<>>;

// The needs of each program. A program that runs several times in a step needs a value if any of
// its runs needs it. A tensor that a program writes in parts, or reads between steps, is needed
// throughout.
std::vector<KeptNeeds> NeedsOfKept(std::span<const graph::Program* const> programs,
                                   const StepOrder& order);

}  // namespace plimsoll::memory
