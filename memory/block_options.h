// What can be done with the saved activations of one block. An option gives each activation a
// retention; together they have the bytes that stay and the seconds that it costs to restore the
// rest.
//
// Recomputing follows the chain rule: a dropped result is computed again from the nearest available
// results, each node of the chain once. So a result's cost depends on which others were kept, and
// whole subsets must be compared: all of them if they are few enough.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"

namespace plimsoll::memory {

// The saved results of one node of the forward pass, about which one decision is made. They share
// one retention, since recomputing one of them gives the others for nothing.
struct Decision {
  std::vector<std::string> tensors;
  int node = -1;                // the producer, in the program before recomputation
  int block = -1;               // of the producer, as graph::Blocks numbers them; -1: outside any
  int64_t bytes = 0;            // of all results, each rounded up to the alignment
  bool recompute = true;        // may be dropped and computed again
  bool offload = false;         // may wait in host memory
  double copy_seconds = 0;      // to the host; the copy back takes as long
  bool parameter = false;       // gathered from data ranks' parts (ZeRO 3), not an activation
  std::string block_name = {};  // "block.3"; empty: outside any
  int base = 0;                 // index into Variant::bases: the program that it belongs to
};

// One retention for each decision.
using Assignment = std::vector<graph::Retention>;

struct BlockOption {
  std::vector<graph::Retention> retentions;  // of the block's decisions, in order
  int64_t kept_bytes = 0;
  int64_t host_bytes = 0;
  double recompute_seconds = 0;
  double copy_seconds = 0;  // to the host; the copies back take as long
  double seconds = 0;       // of recomputing, and of the copies that nothing hides
};

struct BlockOptionsLimits {
  int64_t enumerate = 8192;  // subsets to look at; beyond, the smallest tensors are always kept
  int options = 24;          // number to return
  // Seconds of copying, each way, that the block's own work hides: 0 where copies run in line.
  double hidden_seconds = 0;
};

// The options for the decisions `block` (indices into `decisions`) when all others are kept, by
// ascending kept bytes: those that no other beats in bytes and seconds, and then the nearest to
// them. A result that another block reads is never dropped: its chain would reach through that
// block. `node_seconds`: the seconds of the program's nodes.
std::vector<BlockOption> FindBlockOptions(const graph::Program& program,
                                          std::span<const Decision> decisions,
                                          std::span<const int> block,
                                          std::span<const double> node_seconds,
                                          const BlockOptionsLimits& limits = {});

}  // namespace plimsoll::memory
