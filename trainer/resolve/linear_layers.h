// Finds the linear layers of a model in its forward pass.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/program.h"
#include "models/model.h"

namespace plimsoll::trainer {

// The programs that compute the losses of one sample of `sequence` tokens. They are not for
// training, because one sample may be too few for that.
std::vector<graph::Program> LossPrograms(const models::Model& model, int64_t sequence);

// The weights of linear layers in blocks (graph/block.h), by the name of the block.
std::map<std::string, std::vector<std::string>> LinearLayersInBlocks(const models::Model& model,
                                                                     int64_t sequence);

}  // namespace plimsoll::trainer
