// A plan's decisions for each tensor: which activations are recomputed or offloaded, and which
// tensors are on the host. For `plan --json` and `plan --diff`.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// {"block.*.norm_1": "recompute 0-7, 9; offload 8", "embed": "recompute", "block.*.fc.weight":
// "host 4-11"}: maps a tensor's name to its decisions, with the numbers of the blocks. Omits
// tensors that are kept on the device. Does not distinguish micro-steps and objectives.
nlohmann::ordered_json DecisionsJson(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
