// A warning about GPUs whose matrix units multiply fp16 and no bf16.
#pragma once

#include "trainer/config/load.h"

namespace plimsoll::trainer {

// Adds the warning if the run computes in bf16, and the GPU that it runs on, or is planned for, has
// no matrix units for it. It is no refusal, since there are kernels without matrix units
// (HasMmaAttention in ops/cuda/attention).
void WarnOfBf16(config::Loaded& loaded);

}  // namespace plimsoll::trainer
