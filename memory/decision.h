// Decisions about the saved activations of a step: the fate of each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/program.h"

namespace plimsoll::memory {

// The decision about the saved results of one node of the forward pass. They share one fate, since
// recomputing one of them recomputes all.
struct Decision {
  std::vector<std::string> tensors;
  int node = -1;            // the producer, in the program before recomputation
  int block = -1;           // of the producer, as graph::Blocks numbers them; -1: outside any
  int64_t bytes = 0;        // of all results, each rounded up to the alignment
  bool recompute = true;    // whether it may be recomputed
  bool offload = false;     // whether it may be offloaded
  double copy_seconds = 0;  // to the host; the copy back takes as long
  bool parameter = false;   // a parameter gathered from data ranks' shards (ZeRO 3), no activation
  std::string block_name = {};  // "block.3"; empty: outside any
  int base = 0;                 // index into Variant::bases: the program that it belongs to

  bool Allows(graph::Retention fate) const {
    return fate == graph::Retention::kSave ||
           (fate == graph::Retention::kRecompute ? recompute : offload);
  }
};

// One for each decision.
using Fates = std::vector<graph::Retention>;

inline bool Offloads(const Fates& fates) {
  return std::ranges::find(fates, graph::Retention::kOffload) != fates.end();
}

}  // namespace plimsoll::memory
