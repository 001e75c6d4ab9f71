// optimizer.name: muon: which matrices of a model it updates.
#pragma once

#include "models/model.h"
#include "optim/update.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// Muon updates the weights of linear layers in blocks. The matrices that are stacked in one of them
// (q, k and v; gate and up) are those that tensor ranks would split, or else the tensors of
// checkpoints. UserError where there are none, or where the run freezes or splits them.
optim::MuonOptions MuonFrom(const config::RunConfig& config, const models::Model& model);

}  // namespace plimsoll::trainer
