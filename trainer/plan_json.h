// The memory plan for programs: what `plan --json` prints and a run keeps as plan.json.
#pragma once

#include <string>

#include "models/model.h"
#include "trainer/compile.h"

namespace plimsoll::trainer {

// {"arena_bytes":…, "max_live_bytes":…, "fragmentation":…, "bytes_by_role":{…}, "programs":[…],
//  "parameters":…, "flops_per_step":…, "predicted_step_ms":null, …}: bytes, FLOPs, milliseconds.
// "caching" says what the caching allocator would take in place of the arena; `allocator` is the
// one that the run uses.
std::string PlanJson(const models::Model& model, const CompiledStep& compiled,
                     const std::string& allocator = "planned");

}  // namespace plimsoll::trainer
