// The linear layers of a model, as its forward pass has them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/program.h"
#include "models/model.h"

namespace plimsoll::trainer {

// The programs that compute the losses of one sample of that many tokens: not for training, where
// one sample may be too few.
std::vector<graph::Program> LossPrograms(const models::Model& model, int64_t sequence);

// The weights of linear layers in blocks (graph/block.h), by the name of the block.
std::map<std::string, std::vector<std::string>> LinearLayersInBlocks(const models::Model& model,
                                                                     int64_t sequence);

}  // namespace plimsoll::trainer
