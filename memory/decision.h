// Decisions about the saved activations of a step: the fate of each activation, which is to be
// kept, recomputed or offloaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/program.h"

namespace plimsoll::memory {

// The decision about the saved results of one node of the forward pass. The results share one fate,
// since recomputing one of them recomputes all.
struct Decision {
  std::vector<std::string> tensors;
  int node = -1;  // the index of the producer in the program before recomputation
  // The producer's block, as graph::Blocks numbers blocks; -1 if it is outside all blocks.
  int block = -1;
  int64_t bytes = 0;        // the sum of the results' bytes, each rounded up to the alignment
  bool recompute = true;    // whether the results may be recomputed
  bool offload = false;     // whether the results may be offloaded
  double copy_seconds = 0;  // seconds of the copy to the host; the copy back takes as long
  bool parameter = false;   // the result is a parameter gathered from data ranks' shards (ZeRO 3),
                            // not an activation
  std::string block_name =
      {};        // the block's name, such as "block.3"; empty if the producer is outside all blocks
  int base = 0;  // index into Variant::bases: the program of the decision

  bool Allows(graph::Retention fate) const {
    return fate == graph::Retention::kSave ||
           (fate == graph::Retention::kRecompute ? recompute : offload);
  }
};

// The fate of each decision.
using Fates = std::vector<graph::Retention>;

inline bool Offloads(const Fates& fates) {
  return std::ranges::find(fates, graph::Retention::kOffload) != fates.end();
}

}  // namespace plimsoll::memory
