// Finds the matrices of a model that optimizer.name: muon updates.
#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"
#include "optim/update.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The weights of linear layers in blocks. Each weight lists the rows of each matrix stacked in it
// (q, k and v; gate and up): the matrices that tensor ranks would split or, if none, the tensors of
// checkpoints. `sequence` is the number of tokens of a sample.
std::vector<optim::MuonOptions::Stacked> MuonMatrices(const models::Model& model, int64_t sequence);

// Throws a UserError if the model has no such matrices, or if the run freezes or splits them.
optim::MuonOptions MuonFrom(const config::RunConfig& config, const models::Model& model);

}  // namespace plimsoll::trainer
