// The pipeline stages that a run file asks for.
#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"
#include "parallel/stage_balance.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile_options.h"

namespace plimsoll::trainer {

// The seconds of a micro-batch's forward and backward pass, by block and by built-in rates, which
// all ranks have alike.
parallel::ModelCosts CostsOfBlocks(const config::RunConfig& config, const models::Model& model);

// The number of blocks of each stage: parallel.stages, or a balanced division; empty without
// stages. UserError where the model cannot be divided so.
std::vector<int64_t> StagesFrom(const config::RunConfig& config, const models::Model& model);
// Sets parallel.stages to them.
void ChooseStages(config::RunConfig& config, const models::Model& model);

// UserError where the first of the stages has nothing to train: then no gradient crosses the cut
// behind it, for which it would wait.
void RequireTrainedStages(const config::RunConfig& config, const models::Model& model,
                          const CompileOptions& options);

}  // namespace plimsoll::trainer
