// The memory plan for programs: what `plan --json` prints and a run keeps as plan.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "models/model.h"
#include "trainer/compile.h"

namespace plimsoll::trainer {

// {"arena_bytes":…, "max_live_bytes":…, "fragmentation":…, "bytes_by_role":{…}, "programs":[…],
//  "parameters":…, "flops_per_step":…, "predicted_step_ms":…, …}: bytes, FLOPs, milliseconds.
// "caching" says what the caching allocator would take in place of the arena; `allocator` is the
// one that the run uses. Without a prediction, predicted_step_ms is null.
nlohmann::ordered_json PlanObject(const models::Model& model, const CompiledStep& compiled,
                                  const std::string& allocator = "planned",
                                  std::optional<double> predicted_step_seconds = {});
// The same as text.
std::string PlanJson(const models::Model& model, const CompiledStep& compiled,
                     const std::string& allocator = "planned",
                     std::optional<double> predicted_step_seconds = {});

}  // namespace plimsoll::trainer
