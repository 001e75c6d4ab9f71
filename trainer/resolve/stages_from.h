// Divides a model into the pipeline stages that a run file asks for.
#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"
#include "parallel/stage_balance.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile_options.h"

namespace plimsoll::trainer {

// The seconds of each block's forward and backward pass of a micro-batch. They come from built-in
// rates, so that all ranks use the same numbers.
parallel::ModelCosts CostsOfBlocks(const config::RunConfig& config, const models::Model& model);

// The number of blocks of each stage: parallel.stages, or a balanced division; empty without
// stages. Throws a UserError if the model cannot be divided this way.
std::vector<int64_t> StagesFrom(const config::RunConfig& config, const models::Model& model);
// Sets parallel.stages to StagesFrom.
void ChooseStages(config::RunConfig& config, const models::Model& model);

// Throws a UserError if the first stage has nothing to train: no gradient would then cross the cut
// after it, and the stage would wait for one.
void RequireTrainedStages(const config::RunConfig& config, const models::Model& model,
                          const CompileOptions& options);

}  // namespace plimsoll::trainer
