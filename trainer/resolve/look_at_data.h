// Checks the data of a run for a plan, without reading much of them.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/config/load.h"
#include "trainer/resolve/data_rate.h"

namespace plimsoll::trainer {

// Checks the data for a plan as training does when it starts: names, headers, numbers of classes,
// shapes and the first samples; large texts and volumes are not read. Throws the UserErrors that
// training would throw. If the data aren't on this machine, only warns. Counts epochs as
// CountEpochs does, or leaves them open with a warning. `rate` receives the speed of a thread that
// prepares samples, if the source may have such threads and was opened; nullptr: nothing is timed.
void LookAtData(config::Loaded& loaded, int64_t started, std::optional<DataRate>* rate = nullptr);

}  // namespace plimsoll::trainer
