// Epochs of a run file, which become steps once the data has been counted.
#pragma once

#include <cstdint>
#include <string>

#include "data/source.h"
#include "models/model.h"
#include "trainer/config/load.h"

namespace plimsoll::trainer {

// Fills in what follows from train.epochs and the other keys that count epochs: opens the data and
// counts it. Does nothing when the file has no such key. `started` as for LoadRun. UserError when
// the data cannot be read, or has no epochs.
void CountEpochs(config::Loaded& loaded, int64_t started);

// The same for data that are open.
void CountEpochsOf(const data::Source& source, const models::Model& model, config::Loaded& loaded,
                   int64_t started);
// A step's samples, as one micro-step of all data ranks for each draw of data.
data::Draws StepOf(const config::RunConfig& config, const models::Model& model, int64_t started);

// "90 epochs of 390.6 steps: 35157 steps"; empty when nothing counts in epochs.
std::string EpochsText(const config::RunConfig& config);

}  // namespace plimsoll::trainer
