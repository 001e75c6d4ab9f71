// The memory summary at the end of a run (`memory.summary`).
#pragma once

#include <cstdint>
#include <string>

#include "trainer/step/session.h"

namespace plimsoll::trainer {

// `steps` that the session has run, with the executors' option `profile` when times are wanted. Of
// evaluation and generation, which are no part of a step, no times are shown.
std::string MemorySummary(Session& session, int64_t steps, bool by_time);

}  // namespace plimsoll::trainer
