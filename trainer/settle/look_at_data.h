// What a plan sees of the data, without reading much of them.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/config/load.h"
#include "trainer/settle/data_rate.h"

namespace plimsoll::trainer {

// Looks at the data as training does when it starts, for a plan: names, headers, numbers of
// classes, shapes and the first samples, but large texts and volumes are not read. UserErrors are
// those of training. Data that aren't on this machine are a warning. Counts epochs as CountEpochs,
// or leaves them open with a warning. `rate`: where to put the speed of a thread that prepares
// samples, of a source that may have such threads and is open; nullptr: nothing is timed.
void LookAtData(config::Loaded& loaded, int64_t started, std::optional<DataRate>* rate = nullptr);

}  // namespace plimsoll::trainer
