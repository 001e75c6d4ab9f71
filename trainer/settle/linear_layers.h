// The linear layers of a model, as its forward pass has them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/program.h"
#include "models/model.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The programs that compute the losses of one sequence: not for training, where one sample may be
// too few.
std::vector<graph::Program> LossPrograms(const config::RunConfig& config,
                                         const models::Model& model);

// The weights of linear layers in blocks (graph/block.h), by the name of the block.
std::map<std::string, std::vector<std::string>> LinearLayersInBlocks(
    const config::RunConfig& config, const models::Model& model);

}  // namespace plimsoll::trainer
