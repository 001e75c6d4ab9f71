// Finds the smallest plans of all stages of a pipeline, and so the least bytes that every stage can
// meet. A run without a pipeline is one stage.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/resolve/ways_to_fit.h"

namespace plimsoll::trainer {

struct SmallestStages {
  std::vector<int64_t> blocks;  // the number of blocks of each stage; empty without a pipeline
  Needs needs;                  // the largest of all stages
  int64_t largest = 0;          // the stage that needs the most bytes of its process
};

// The smallest plans by built-in rates. If checkpointing.policy is `auto` and parallel.stages is
// not given, the stage that needs the most gives blocks to the other stages until all processes are
// within the limits; if no division is, returns the one that needs the fewest bytes. `coarse`: try
// few options for each block; the needs then have a margin of 1 %. Throws a UserError if the run is
// impossible.
SmallestStages SmallestOfStages(config::RunConfig config, const Needs& limits, bool coarse = false);

}  // namespace plimsoll::trainer
