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

// The micro-batches into which `sequences` can be cut, as train.micro_batch and
// train.accumulate allow, the largest first.
std::vector<int64_t> CutsOf(int64_t sequences);

// A data rank's sequences of a step, for train.micro_batch: auto.
int64_t RankSequences(const RunConfig& config);

// Sets train.micro_batch, with the micro-steps that follow from it; "auto" leaves both open, of the
// same batch.
void SetMicroBatch(RunConfig& run, const std::string& value);

}  // namespace plimsoll::config
