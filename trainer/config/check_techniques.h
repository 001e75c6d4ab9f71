// Checks that the techniques of a configuration fit one another and its other keys.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace plimsoll::config {

// Why updates wait for all gradients, so that optimizer.in_backward has no effect, and how to
// change that; empty: they don't wait.
std::string WaitsForGradients(const RunConfig& config);

// Throws a UserError for a key that contradicts another; adds a warning for a key without effect.
// Covers adapters, checkpointing, averages, updates within the backward pass, the order of
// micro-steps, pipeline stages and divergence. Changes nothing. Call it after the model, the batch
// and the types are resolved.
void CheckTechniques(const RunConfig& config, const RankCount& ranks,
                     std::vector<std::string>& warnings);

}  // namespace plimsoll::config
