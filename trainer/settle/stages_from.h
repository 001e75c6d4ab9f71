// The pipeline stages that a run file asks for.
#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"
#include "parallel/stage_balance.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The FLOPs of a forward pass of one sequence, by block.
parallel::ModelCosts CostsOfBlocks(const models::Model& model, int64_t sequence);

// The number of blocks of each stage: parallel.stages, or a balanced division; empty without
// stages. UserError where the model cannot be divided so.
std::vector<int64_t> StagesFrom(const config::RunConfig& config, const models::Model& model);

}  // namespace plimsoll::trainer
