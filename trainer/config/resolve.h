// From keys as written to a configuration that can run: derived values filled, contradictions
// refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace plimsoll::config {

// Fills what is derived (see run_config.h) and throws UserError for keys that are missing, have no
// meaning for this model, or contradict each other. `started` is how many ranks were. Keys without
// effect that do no harm are reset to their defaults and reported in `warnings`.
void Resolve(RunConfig& config, int64_t started, std::vector<std::string>& warnings);

// train.accumulate from a global batch, or a check of the arithmetic. Again useful when
// model.sequence becomes known only from a checkpoint.
void ResolveBatch(RunConfig& config, int64_t started);

// A rank's sequences of an update, cut into micro-steps of one size.
struct BatchCut {
  int64_t micro_batch = 1;
  int64_t accumulate = 1;
};

// All ways to cut them that train.micro_batch and train.accumulate allow, the fewest micro-steps
// first.
std::vector<BatchCut> CutsOf(int64_t sequences);

// Ranks along all axes but data, for each data rank.
int64_t RanksBesideData(const RunConfig& config);

// parallel.data; auto takes what the other axes leave of the ranks that were started.
int64_t DataRanks(const RunConfig& config, int64_t started);

// Whether a key's value follows from other keys that were given, so that the resolved configuration
// must leave it open (accumulate under a global batch, decay_steps under decay_fraction).
bool Follows(const RunConfig& config, const std::string& key);

}  // namespace plimsoll::config
