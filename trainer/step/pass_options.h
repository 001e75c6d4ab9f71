// The options of each pass, derived from those of a step.
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

// The ZeRO stage in training. Returns 0 for one data rank, because one rank has nothing to shard.
int64_t ZeroOf(const CompileOptions& options);

// Whether weights stay sharded over data ranks. Weights on the host are sharded with any ZeRO
// stage, because the link from host to device is slower than the links between ranks.
bool DividesWeights(const CompileOptions& options);

// The tensor-parallelism options for the parameters in `split`.
parallel::TensorParallelOptions TensorParallelFrom(
    const CompileOptions& options, const std::map<std::string, models::SplitParameter>& split);

// Whether the model is cut into pipeline stages.
bool HasStages(const CompileOptions& options);
// Whether a stage's programs for `purpose` are cut into their phases
// (trainer/step/stage_programs.h).
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
// `joined`: whether the program holds several micro-steps.
optim::UpdateInBackwardOptions InBackwardFrom(const Making& making, bool joined);
checkpointing::OffloadOptions OffloadFrom(const CompileOptions& options);
std::vector<graph::Fusion> Fusions(const CompileOptions& options);
// The fusions that also fuse recomputed nodes.
std::vector<graph::Fusion> LateFusions();

}  // namespace plimsoll::trainer
