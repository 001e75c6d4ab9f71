// Converts the epochs of a run file to steps once the data has been counted.
#pragma once

#include <cstdint>
#include <string>

#include "data/source.h"
#include "models/model.h"
#include "trainer/config/load.h"

namespace plimsoll::trainer {

// Opens the data, counts it, and fills in the values that follow from train.epochs and the other
// keys that count epochs. Does nothing when the file has no such key. `started` is the number of
// started ranks (config::DataRanks). Throws a UserError when the data cannot be read, or has no
// epochs.
void CountEpochs(config::Loaded& loaded, int64_t started);

// CountEpochs for data that is already open.
void CountEpochsOf(const data::Source& source, const models::Model& model, config::Loaded& loaded,
                   int64_t started);
// Which samples a step reads; a draw of data holds one micro-step of all data ranks.
data::Draws StepOf(const config::RunConfig& config, const models::Model& model, int64_t started);

// "90 epochs of 390.6 steps: 35157 steps"; empty when no key counts in epochs.
std::string EpochsText(const config::RunConfig& config);

}  // namespace plimsoll::trainer
