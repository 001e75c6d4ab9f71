// optimizer.in_backward beside other keys.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace plimsoll::config {

// Warns of what makes updates wait for all gradients, so that none of them moves into the backward
// pass. A UserError refuses state on the host. After the types of the run are resolved.
void CheckInBackward(const RunConfig& config, std::vector<std::string>& warnings);

}  // namespace plimsoll::config
