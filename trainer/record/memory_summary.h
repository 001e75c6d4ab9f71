// The memory summary at the end of a run (`memory.summary`).
#pragma once

#include <cstdint>
#include <string>

#include "trainer/step/session.h"

namespace plimsoll::trainer {

// `steps`: the number of steps that the session has run, with the executors' option `profile` if
// `by_time`. Shows no times of evaluation and generation, which are not part of a step.
std::string MemorySummary(Session& session, int64_t steps, bool by_time);

}  // namespace plimsoll::trainer
