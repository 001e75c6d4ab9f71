// Makes memory_timeline.json of a run directory (described in docs/how/memory_timeline.md).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trainer/step/compile.h"

namespace plimsoll::trainer {

nlohmann::ordered_json MemoryTimelineJson(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
