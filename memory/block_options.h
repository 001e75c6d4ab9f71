// The options of one block: fates for its saved activations. An option's cost is the bytes that are
// kept and the seconds to restore the rest.
//
// A dropped result is recomputed from the nearest results that are available, each node on the way
// once. So its cost depends on which other results are kept, and options are subsets of results:
// all subsets are compared if there are few enough.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/program.h"
#include "memory/decision.h"

namespace plimsoll::memory {

struct BlockOption {
  Fates fates;  // fates of the block's decisions, in order
  int64_t kept_bytes = 0;
  int64_t host_bytes = 0;
  int64_t leaving_bytes = 0;  // bytes of dropped results that other blocks read
  double copy_seconds = 0;    // seconds of copies to the host; the copies back take as long
  double seconds = 0;         // seconds of recomputation, and of copies that no computation hides

  // Whether a step's cost may not be the sum over blocks: copies may overlap with the computation
  // of other blocks, or other blocks' gradients read a result that this one drops.
  bool IsEstimate() const { return leaving_bytes > 0 || host_bytes > 0; }
};

struct BlockOptionsLimits {
  int64_t enumerate =
      8192;          // the most subsets to compare; with more, the smallest tensors are always kept
  int options = 24;  // the most options to return
  bool offload = true;  // whether to offload, if decisions allow it
  bool leaving = true;  // whether results that other blocks read may be dropped
  // Whether a result that another block reads is dropped only if it can be recomputed from what its
  // own block keeps. Otherwise earlier blocks are assumed to keep what its recomputation reads.
  bool within_block = true;
  // Only options of a block within a chain (memory/block_chains.h): results that only the next
  // block reads are dropped, results that others read are kept.
  bool chained = false;
  // Seconds of copies, each way, that the block's own computation hides; 0 if copies do not
  // overlap.
  double hidden_seconds = 0;
};

// The options for the decisions `block` (indices into `decisions`) if all other activations are
// kept, by rising kept bytes. If there are too many, the options are chosen that no other option
// beats in bytes and seconds, and then those nearest to them. With `chained`, no options if no
// result that the next block reads can be dropped. `node_seconds`: by node of the program.
std::vector<BlockOption> FindBlockOptions(const graph::Program& program,
                                          std::span<const Decision> decisions,
                                          std::span<const int> block,
                                          std::span<const double> node_seconds,
                                          const BlockOptionsLimits& limits = {});

// The seconds of recomputing the results that these fates drop.
double RecomputeSeconds(const graph::Program& program, std::span<const Decision> decisions,
                        const Fates& fates, std::span<const double> node_seconds);

}  // namespace plimsoll::memory
