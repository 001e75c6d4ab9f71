// The Pareto front of time and peak memory: the fastest ways to give each block one of its options,
// for every peak.
//
// While block i computes, in its forward or its backward pass, its own need is alive and what the
// earlier blocks keep; what later blocks kept is free again. Let need(i) be the most bytes that are
// alive while any of the blocks i, i + 1, … computes, without what blocks before i keep:
//
//   need(i) = max(need of block i's option, bytes it keeps + need(i + 1))
//
// The peak is need(first). The search goes from the last block to the first, and carries only
// combinations that no other beats in both need and seconds. It assumes nothing about how blocks
// are alike, or how their options are ordered. An option may cover several blocks, as that of a
// chain does: need(i + 1) is then that of the block after the chain.
//
// Copies that overlap with computation cost the time that computation waits for them, and slow it
// down a little. A copy to the host may take until the next block's copy starts; a copy back may
// take from when the previous one was needed. If it is faster, blocks that copy are so far apart
// that nothing waits. A copied tensor is on the device until its copy to the host has ended, and
// from the start of its copy back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::memory {

// One option of one block, or of a chain of neighbours that begins with it.
struct OptionCost {
  int option = 0;           // the caller's number of the option
  int blocks = 1;           // number of blocks that it covers; kept and need are for all of them
  double seconds = 0;       // seconds of a step, in addition to those of keeping everything
  int64_t kept = 0;         // bytes kept from the block's forward pass to its backward pass
  int64_t need = 0;         // the most bytes alive while it computes, without those that earlier
                            // blocks keep
  int64_t arriving = 0;     // bytes copied back before or during the block's backward pass
  double copy_seconds = 0;  // for one micro-step, one way; 0: nothing is copied
};

// The seconds of one micro-step's computation in a block.
struct BlockTime {
  double forward = 0, backward = 0;
};

struct OptionProblem {
  std::vector<std::vector<OptionCost>> blocks;  // in the order of the forward pass; not empty
  // By block: blocks with the same number may exchange options. Empty: no blocks may. Among equally
  // good combinations, the result is the one whose early blocks keep less.
  std::vector<int> likes = {};
  std::vector<BlockTime> times = {};  // times of each block; empty: nothing is copied
  double head_seconds = 0;            // time between the last block's forward and backward pass
  double copy_slack = 1;              // a copy is planned to take this multiple of its seconds
  double copies_slow = 0;  // the fraction by which a copy slows computation that overlaps with it
  double micro_steps = 1;
};

struct OptionPoint {
  double seconds = 0;  // the sum over the blocks, with waiting
  int64_t peak = 0;
  std::vector<int> options;  // by block: OptionCost::option; -1: an earlier option covers the block
};

// The points by rising seconds and falling peak. If there are more than `limit`, the result has
// those of evenly spaced peaks.
std::vector<OptionPoint> FrontOfOptions(const OptionProblem& problem, size_t limit);

}  // namespace plimsoll::memory
