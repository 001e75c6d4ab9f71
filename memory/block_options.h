// The options of one block: fates for its saved activations. An option costs the bytes that it
// keeps, and the seconds to recompute or copy back the others.
//
// A dropped result is recomputed from the nearest results that are available, each node in between
// once. So the cost of dropping a result depends on which other results are kept. Options are
// therefore subsets of results: all subsets are compared if there are few enough.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/program.h"
#include "memory/decision.h"

namespace plimsoll::memory {

struct BlockOption {
  Fates fates;  // by decision of the block: its fate
  int64_t kept_bytes = 0;
  int64_t host_bytes = 0;
  int64_t leaving_bytes = 0;  // bytes of dropped results that other blocks read
  double copy_seconds = 0;    // seconds of copies to the host; the copies back take as long
  // Seconds of recomputation, and of copies that do not overlap with computation.
  double seconds = 0;

  // Whether a step's cost may not be the sum over blocks: copies may overlap with the computation
  // of other blocks, or other blocks' gradients read a result that this one drops.
  bool IsEstimate() const { return leaving_bytes > 0 || host_bytes > 0; }
};

struct BlockOptionsLimits {
  // The most subsets to compare; if there are more, the smallest tensors are always kept.
  int64_t enumerate = 8192;
  int options = 24;     // the most options to return
  bool offload = true;  // whether to offload, if decisions allow it
  bool leaving = true;  // whether results that other blocks read may be dropped
  // Whether a result that another block reads is dropped only if it can be recomputed from results
  // that its own block keeps. If false, earlier blocks are assumed to keep the results that its
  // recomputation reads.
  bool within_block = true;
  // Whether to return only options of a block within a chain (memory/block_chains.h), which drop
  // results that only the next block reads, and keep results that other blocks read.
  bool chained = false;
  // Seconds of copies, each way, that overlap with the block's own computation; 0 if copies do not
  // overlap with computation.
  double hidden_seconds = 0;
};

// Returns the options for the decisions `block` (indices into `decisions`) if all other activations
// are kept, by rising kept bytes. If there are more than `limits.options`, it returns the options
// that no other option beats in bytes and seconds, and then the options nearest to these. With
// `chained`, the result is empty if no result that the next block reads can be dropped.
// `node_seconds`: by node of the program: its seconds.
std::vector<BlockOption> FindBlockOptions(const graph::Program& program,
                                          std::span<const Decision> decisions,
                                          std::span<const int> block,
                                          std::span<const double> node_seconds,
                                          const BlockOptionsLimits& limits = {});

// The seconds of recomputing the results whose fate is kRecompute.
double RecomputeSeconds(const graph::Program& program, std::span<const Decision> decisions,
                        const Fates& fates, std::span<const double> node_seconds);

}  // namespace plimsoll::memory
