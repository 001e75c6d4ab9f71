// The options of each pass, from those of a step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "amp/fp8.h"
#include "checkpointing/offload.h"
#include "graph/autodiff.h"
#include "graph/fuse.h"
#include "models/sharding.h"
#include "optim/update.h"
#include "optim/update_in_backward.h"
#include "parallel/cut_stage.h"
#include "parallel/data_parallel.h"
#include "parallel/gather_codes.h"
#include "parallel/tensor_parallel.h"
#include "parallel/zero_state.h"
#include "parallel/zero_weights.h"
#include "trainer/step/passes.h"

namespace plimsoll::trainer {

// The stage of ZeRO of training. With one data rank there is nothing to divide.
int64_t ZeroOf(const CompileOptions& options);

// Whether each data rank carries a part of each weight. On the host that is so with any stage of
// ZeRO: the link to the device is narrower than that to other ranks.
bool DividesWeights(const CompileOptions& options);

// What each rank has of the parameters that tensor parallelism splits.
parallel::TensorParallelOptions TensorParallelFrom(
    const CompileOptions& options, const std::map<std::string, models::SplitParameter>& split);

// Whether this rank has a stage of the model.
bool HasStages(const CompileOptions& options);
// Whether such programs of a stage are cut by their phases (trainer/step/stage_programs.h).
bool IsCutIntoParts(const CompileOptions& options, const Purpose& purpose);

int64_t DataRanks(const Making& making);
graph::AutodiffOptions AutodiffFrom(const Making& making);
amp::Fp8Products::Options Fp8From(const Making& making);
optim::UpdateOptions UpdateFrom(const Making& making);
parallel::ZeroStateOptions ZeroStateFrom(const Making& making);
parallel::CutStageOptions CutStageFrom(const Making& making);
parallel::ZeroWeightsOptions ZeroWeightsFrom(const Making& making);
parallel::GatherCodes::Options GatherCodesFrom(const Making& making);
parallel::DataParallelOptions DataParallelFrom(const Making& making);
// `joined`: the program holds several micro-steps.
optim::UpdateInBackwardOptions InBackwardFrom(const Making& making, bool joined);
checkpointing::OffloadOptions OffloadFrom(const CompileOptions& options);
std::vector<graph::Fusion> Fusions(const CompileOptions& options);
// Those that look at what is computed again.
std::vector<graph::Fusion> LateFusions();

}  // namespace plimsoll::trainer
