// optimizer.name: muon: which matrices of a model it updates.
#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"
#include "optim/update.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The weights of linear layers in blocks, with the rows of each of the matrices that are stacked in
// them (q, k and v; gate and up): those that tensor ranks would split, or else the tensors of
// checkpoints. `sequence`: of a sample, in tokens.
std::vector<optim::MuonOptions::Stacked> MuonMatrices(const models::Model& model, int64_t sequence);

// UserError where the model has no such matrices, or where the run freezes or splits them.
optim::MuonOptions MuonFrom(const config::RunConfig& config, const models::Model& model);

}  // namespace plimsoll::trainer
