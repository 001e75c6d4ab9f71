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

// The first key that counts in epochs, if any: then steps follow from the amount of data. Empty:
// none.
std::string EpochsKey(const RunConfig& config);

// Derives the keys that count steps from the keys that count epochs. An epoch has `epoch_samples`
// samples, a batch `step_samples`. UserError if the result contradicts other keys; `warnings` as in
// DeriveValues.
void FollowEpochs(RunConfig& config, int64_t epoch_samples, int64_t step_samples,
                  std::vector<std::string>& warnings);

// The error for data that mixes samples (data.mixup) if the model has no loss for two labels.
UserError NoSecondLabels(const RunConfig& config);

// Whether a key's value follows from other keys that were given, so that the resolved configuration
// must leave it open (accumulate under a global batch, decay_steps under decay_fraction).
bool Follows(const RunConfig& config, const std::string& key);

// Whether a key's value follows from a key that counts epochs. If so, it has no value until
// FollowEpochs.
bool FollowsEpochs(const RunConfig& config, const std::string& key);

}  // namespace plimsoll::config
