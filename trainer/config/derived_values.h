// Resolves a configuration: fills in derived values, and refuses contradictions among keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace plimsoll::config {

// Fills in derived values (see run_config.h) and throws UserError for keys that are missing, don't
// apply to this model, or contradict each other or the ranks that were started. Keys without effect
// that do no harm are reset to their defaults and reported in `warnings`.
void DeriveValues(RunConfig& config, const RankCount& ranks, std::vector<std::string>& warnings);

// The first key that counts in epochs, so that steps follow from the amount of data; empty: none.
std::string EpochsKey(const RunConfig& config);

// Derives the keys that count steps from those that count epochs, for epochs of so many samples and
// a batch of so many. UserError when they contradict the others; `warnings` as in DeriveValues.
void FollowEpochs(RunConfig& config, int64_t epoch_samples, int64_t step_samples,
                  std::vector<std::string>& warnings);

// The refusal of data that mixes samples (data.mixup), where the model has no loss of two labels.
UserError NoSecondLabels(const RunConfig& config);

// Whether a key's value follows from other keys that were given, so that the resolved configuration
// must leave it open (accumulate under a global batch, decay_steps under decay_fraction).
bool Follows(const RunConfig& config, const std::string& key);

// Whether it follows from a key that counts epochs: until FollowEpochs it has no value then.
bool FollowsEpochs(const RunConfig& config, const std::string& key);

}  // namespace plimsoll::config
