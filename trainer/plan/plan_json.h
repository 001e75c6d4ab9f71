// The memory plan of programs as JSON: `plan --json` prints it and a run keeps it as plan.json.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "memory/device_profile.h"
#include "models/model.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// Facts about a run that its programs don't hold.
struct PlanContext {
  std::string allocator = "planned";  // that the run uses
  std::optional<double> predicted_step_seconds = {};
  memory::DeviceProfile profile = {};  // of its device
  // What the solver chose of the keys that were left to it (trainer/settle/knobs.h).
  nlohmann::ordered_json choices = nlohmann::ordered_json::object();
};

// {"arena_bytes":…, "max_live_bytes":…, "fragmentation":…, "bytes_by_role":{…}, "programs":[…],
// "parameters":…, "flops_per_step":…, "predicted_step_ms":…, …}: bytes, FLOPs, milliseconds.
// "caching" is the memory that the caching allocator would take instead of the arena. Without a
// prediction, predicted_step_ms is null. "choices" is empty when nothing was left to the budget. On a GPU, process_bytes is the memory of the whole process
// and process_parts its breakdown; on the CPU both are null.
nlohmann::ordered_json PlanObject(const models::Model& model, const CompiledStep& compiled,
                                  const PlanContext& context = {});
// The same as text.
std::string PlanJson(const models::Model& model, const CompiledStep& compiled,
                     const PlanContext& context = {});

// {"parameter": bytes, "activation": bytes, …}
nlohmann::ordered_json ByRoleJson(const memory::BytesByRole& bytes);

}  // namespace plimsoll::trainer
