// Checks the data of a run for a plan, without reading much of it.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/config/load.h"
#include "trainer/resolve/data_rate.h"

namespace plimsoll::trainer {

// Checks the data for a plan as training does at its start: names, headers, numbers of classes,
// shapes and the first samples. Does not read large texts and volumes. Throws the UserErrors that
// training would throw; if the data isn't on this machine, only warns. Counts epochs as CountEpochs
// does, or leaves them open with a warning. `rate` receives the speed of a thread that prepares
// samples, if the source was opened and may have such threads; nullptr means that nothing is timed.
void LookAtData(config::Loaded& loaded, int64_t started, std::optional<DataRate>* rate = nullptr);

}  // namespace plimsoll::trainer
