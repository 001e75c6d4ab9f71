// Epochs of a run file, which become steps once the data has been counted.
#pragma once

#include <string>

#include "trainer/config/load.h"

namespace plimsoll::trainer {

// Fills in what follows from train.epochs and the other keys that count epochs: opens the data and
// counts it. Does nothing when the file has no such key. `started` as for LoadRun. UserError when
// the data cannot be read, or has no epochs.
void CountEpochs(config::Loaded& loaded, int64_t started);

// Looks at the data as training does when it starts, for a plan: names, headers, numbers of
// classes, shapes and the first samples, but large texts and volumes are not read. UserErrors are
// those of training. Data that aren't on this machine are a warning. Counts epochs as CountEpochs,
// or leaves them open with a warning.
void LookAtData(config::Loaded& loaded, int64_t started);

// "90 epochs of 390.6 steps: 35157 steps"; empty when nothing counts in epochs.
std::string EpochsText(const config::RunConfig& config);

}  // namespace plimsoll::trainer
