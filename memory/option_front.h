// The Pareto front of time and peak memory: the fastest ways to give each block one of its options,
// for every peak.
//
// A step's memory is a sum. While block i works, in its forward or its backward pass, alive are
// what it needs itself and what the blocks before it keep; what later blocks kept is free again.
// So, with the blocks numbered from the first to the last, and for what all blocks from i on need
// beside what those before them keep,
//
//   need(i) = max(need of block i's option, bytes it keeps + need(i + 1))
//
// and the peak is need(first). Going from the last block to the first, only those combinations are
// carried on that no other beats in both need and seconds. Nothing is assumed of how blocks are
// alike, or in which order options follow one another. An option may be one of several blocks, as
// that of a chain is: need(i + 1) is then that of the blocks after the chain.
//
// Copies that run beside the computation cost what they are waited for, and slow it down a little:
// each has until the next block's copy starts, or, on the way back, since the one before was
// needed. Blocks that copy come apart so far that nothing waits, if that is what is fastest. A
// copy's bytes are on the device until it is assumed to have ended, and from when it starts on its
// way back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::memory {

// One option of one block, or of a chain of neighbours that begins with it.
struct OptionCost {
  int option = 0;        // its number, for the caller
  int blocks = 1;        // that it decides about: the kept bytes and the need are those of all
  double seconds = 0;    // beyond those of keeping everything, in a whole step
  int64_t kept = 0;      // bytes that wait from the block's forward pass for its backward pass
  int64_t need = 0;      // most bytes alive while it works, beside what the blocks before it keep
  int64_t arriving = 0;  // bytes that come before the block's backward pass, or beside it
  double copy_seconds = 0;  // of one micro-step, one way; 0: nothing is copied
};

// The seconds of one micro-step's computation in a block.
struct BlockTime {
  double forward = 0, backward = 0;
};

struct OptionProblem {
  std::vector<std::vector<OptionCost>> blocks;  // from the first one of the forward pass; not empty
  // By block: those with the same number may exchange options; empty: none. Of combinations that
  // are as good, the one is given whose early blocks keep less.
  std::vector<int> likes = {};
  std::vector<BlockTime> times = {};  // by block; empty: nothing is copied
  double head_seconds = 0;            // between the last block's forward and backward pass
  double copy_slack = 1;              // a copy is given so many times its seconds
  double copies_slow = 0;             // so much longer does what runs beside a copy take
  double micro_steps = 1;
};

struct OptionPoint {
  double seconds = 0;  // the sum over the blocks, and of waiting
  int64_t peak = 0;
  std::vector<int> options;  // by block: OptionCost::option; -1: of the chain before
};

// By ascending seconds and falling peak. At most `limit` points: of more, those of evenly spaced
// peaks.
std::vector<OptionPoint> FrontOfOptions(const OptionProblem& problem, size_t limit);

}  // namespace plimsoll::memory
