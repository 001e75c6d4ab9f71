// memory_timeline.json of a run directory (docs/allocators.md describes it).
#pragma once

#include <string>

#include "trainer/compile.h"

namespace plimsoll::trainer {

std::string MemoryTimelineJson(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
