// The memory plan for programs: what `plan --json` prints and a run keeps as plan.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "memory/device_profile.h"
#include "models/model.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// What is known of a run beside its programs.
struct PlanContext {
  std::string allocator = "planned";  // that the run uses
  std::optional<double> predicted_step_seconds = {};
  memory::DeviceProfile profile = {};  // of its device
};

// {"arena_bytes":…, "max_live_bytes":…, "fragmentation":…, "bytes_by_role":{…}, "programs":[…],
//  "parameters":…, "flops_per_step":…, "predicted_step_ms":…, …}: bytes, FLOPs, milliseconds.
// "caching" says what the caching allocator would take in place of the arena. Without a prediction,
// predicted_step_ms is null. On a GPU, process_bytes is the whole process's and process_parts what
// it consists of; on the CPU they are null.
nlohmann::ordered_json PlanObject(const models::Model& model, const CompiledStep& compiled,
                                  const PlanContext& context = {});
// The same as text.
std::string PlanJson(const models::Model& model, const CompiledStep& compiled,
                     const PlanContext& context = {});

// {"parameter": bytes, "activation": bytes, …}
nlohmann::ordered_json ByRoleJson(const memory::BytesByRole& bytes);

}  // namespace plimsoll::trainer
