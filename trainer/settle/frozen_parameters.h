// The parameters that train.freeze means, by the model's names or by those of its checkpoints.
#pragma once

#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// Names of the model's parameters. A pattern that matches some of them means these; any other one
// is matched with the names of a checkpoint's tensors, with or without their prefix, and with those
// of tied copies. UserError for a pattern that matches nothing, for tensors that are a part of a
// parameter alone, and where nothing is left to train.
std::vector<std::string> FrozenFrom(const config::RunConfig& config, const models::Model& model);

}  // namespace plimsoll::trainer
