// Micro-batches: how a batch is cut (split) into the micro-steps of gradient accumulation and dealt
// to the data ranks: train.global_batch = micro_batch × accumulate × data ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace plimsoll::config {

// Derives train.accumulate from a global batch, or checks the arithmetic. Called again when
// model.sequence becomes known only from a checkpoint.
void DeriveBatch(RunConfig& config, int64_t started);

// The micro-batch sizes that cut `sequences` into equal parts, within the limits of
// train.micro_batch and train.accumulate; largest first.
std::vector<int64_t> CutsOf(int64_t sequences);

// For train.micro_batch: auto, the number of sequences of a step for each data rank.
int64_t RankSequences(const RunConfig& config);

// Sets train.micro_batch and the number of micro-steps that keeps the batch size. "auto" leaves
// both open.
void SetMicroBatch(RunConfig& run, const std::string& value);

}  // namespace plimsoll::config
