// What can be done with the saved activations of one block. An option gives each activation a
// fate; together they have the bytes that stay and the seconds that it costs to restore the rest.
//
// Recomputing follows the chain rule: a dropped result is computed again from the nearest available
// results, each node of the chain once. So a result's cost depends on which others were kept, and
// whole subsets must be compared: all of them if they are few enough.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/program.h"
#include "memory/decision.h"

namespace plimsoll::memory {

struct BlockOption {
  Fates fates;  // of the block's decisions, in order
  int64_t kept_bytes = 0;
  int64_t host_bytes = 0;
  int64_t leaving_bytes = 0;  // dropped results that other blocks read
  double copy_seconds = 0;    // to the host; the copies back take as long
  double seconds = 0;         // of recomputing, and of the copies that nothing hides

  // Whether what it takes may be no sum over blocks: it copies to the host, where copies may run
  // beside the computation, or other blocks' gradients wait for what it drops.
  bool IsEstimate() const { return leaving_bytes > 0 || host_bytes > 0; }
};

struct BlockOptionsLimits {
  int64_t enumerate = 8192;  // subsets to look at; beyond, the smallest tensors are always kept
  int options = 24;          // number to return
  bool offload = true;       // where decisions allow it
  bool leaving = true;       // results that other blocks read may be dropped
  // Whether a result that another block reads is dropped only where it can be computed again from
  // what its own block keeps. Otherwise the blocks before it are taken to keep what it needs.
  bool within_block = true;
  // Only options of a block within a chain (memory/block_chains.h): what the next block alone reads
  // is dropped, what others read is kept.
  bool chained = false;
  // Seconds of copying, each way, that the block's own work hides: 0 where copies run in line.
  double hidden_seconds = 0;
};

// The options for the decisions `block` (indices into `decisions`) when all others are kept, by
// ascending kept bytes: those that no other beats in bytes and seconds, and then the nearest to
// them. None of a chain if no result is dropped that the next block reads. `node_seconds`: the
// seconds of the program's nodes.
std::vector<BlockOption> FindBlockOptions(const graph::Program& program,
                                          std::span<const Decision> decisions,
                                          std::span<const int> block,
                                          std::span<const double> node_seconds,
                                          const BlockOptionsLimits& limits = {});

// The seconds that it takes to recompute what these fates drop.
double RecomputeSeconds(const graph::Program& program, std::span<const Decision> decisions,
                        const Fates& fates, std::span<const double> node_seconds);

}  // namespace plimsoll::memory
