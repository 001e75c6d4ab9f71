// Kept tensors: carried tensors that one program of a step writes for later programs, as the
// forward pass of a micro-batch keeps its activations for the backward pass (graph/phase_cut.h).
// From the last reader to the next writer nobody needs the value of such a tensor, and its bytes
// are free for temporaries.
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

// The order in which a step runs its programs. All programs that are not in `runs` run between
// steps.
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
// Maps the name of a kept tensor to its need. A tensor that is absent from the map is not a kept
// tensor.
using KeptNeeds = std::map<std::string, KeptNeed, std::less<>>;

// By program: its needs. A program that runs several times in a step needs a value if any of its
// runs needs it. A tensor is needed throughout if a program writes it in parts, or reads it between
// steps.
std::vector<KeptNeeds> NeedsOfKept(std::span<const graph::Program* const> programs,
                                   const StepOrder& order);

}  // namespace plimsoll::memory
