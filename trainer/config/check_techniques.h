// What techniques ask of one another, and of the rest of a configuration.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace plimsoll::config {

// Why updates wait for all gradients, so that optimizer.in_backward has no effect, and how they
// need not; empty: they don't.
std::string WaitsForGradients(const RunConfig& config);

// A UserError names the key that contradicts another; a warning, one without an effect: adapters,
// checkpointing, averages, updates within the backward pass, the order of micro-steps, and what
// follows a divergence. Changes nothing. After the model, the batch and the types are resolved.
void CheckTechniques(const RunConfig& config, const RankCount& ranks,
                     std::vector<std::string>& warnings);

}  // namespace plimsoll::config
