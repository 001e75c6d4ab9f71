// The Pareto front of time and peak memory: the fastest ways to give each block one of its options,
// for every peak.
//
// While block i computes, in its forward or its backward pass, two kinds of bytes are alive: the
// block's own need, and the bytes that earlier blocks keep. The bytes that later blocks kept are
// free again. Let need(i) be the most bytes that are alive while any of the blocks i, i + 1, …
// computes, without what blocks before i keep:
//
//   need(i) = max(need of block i's option, bytes it keeps + need(i + 1))
//
// The peak is need(first). The search goes from the last block to the first, and carries only
// combinations that no other beats in both need and seconds. It assumes nothing about how blocks
// are alike, or how their options are ordered. The option of a chain (memory/block_chains.h) covers
// several blocks: instead of need(i + 1), the need of the block after the chain is taken.
//
// Copies that overlap with computation cost the time that computation waits for them, and slow it
// down a little. Nothing waits if a copy to the host ends before the next block's copy starts, and
// a copy back starts after the previously copied tensors were needed. Blocks that copy may be so
// far apart that this holds. A copied tensor is on the device until its copy to the host has ended,
// and from the start of its copy back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::memory {

// One option of one block, or of a chain of neighbours that begins with it.
struct OptionCost {
  int option = 0;  // the caller's number of the option
  // Number of blocks that the option covers; kept and need are for all these blocks.
  int blocks = 1;
  double seconds = 0;    // what the option adds to the seconds of a step that keeps everything
  int64_t kept = 0;      // bytes kept from the block's forward pass to its backward pass
  int64_t need = 0;      // the most bytes alive while the block computes, without the bytes that
                         // earlier blocks keep
  int64_t arriving = 0;  // bytes copied back before or during the block's backward pass
  // Seconds of the copies one way for one micro-step; 0 if nothing is copied.
  double copy_seconds = 0;
};

// The seconds that one micro-step computes in a block.
struct BlockTime {
  double forward = 0, backward = 0;
};

struct OptionProblem {
  std::vector<std::vector<OptionCost>>
      blocks;  // by block, in the order of the forward pass: the costs of its options
  // By block: a number; blocks with the same number may exchange options. Empty means that no
  // blocks may. Among equally good combinations, the result is the one whose early blocks keep less
  // than later ones.
  std::vector<int> likes = {};
  std::vector<BlockTime> times = {};  // by block: its seconds; empty if nothing is copied
  double head_seconds = 0;            // time between the last block's forward and backward pass
  double copy_slack = 1;              // a copy is planned to take this multiple of its seconds
  double copies_slow = 0;  // the fraction by which a copy slows computation that overlaps with it
  double micro_steps = 1;
};

struct OptionPoint {
  double seconds = 0;  // the sum of the options' seconds, and the waits for copies
  int64_t peak = 0;
  std::vector<int> options;  // by block: OptionCost::option; -1 if the option of an earlier block
                             // covers this block
};

// Returns the points by rising seconds and falling peak. If there are more than `limit` points, it
// returns only points with evenly spaced peaks.
std::vector<OptionPoint> FrontOfOptions(const OptionProblem& problem, size_t limit);

}  // namespace plimsoll::memory
