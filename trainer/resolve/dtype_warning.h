// A warning about types that a GPU's matrix units do not multiply.
#pragma once

#include "trainer/config/load.h"

namespace plimsoll::trainer {

// Adds the warning if the run computes in bf16 or TF32, and the GPU that it runs on, or is planned
// for, has no matrix units for it. It is no refusal, since there are kernels without matrix units.
void WarnOfDtype(config::Loaded& loaded);

}  // namespace plimsoll::trainer
