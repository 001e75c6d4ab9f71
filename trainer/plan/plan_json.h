// The memory plan of programs as JSON: `plan --json` prints it and a run keeps it as plan.json.
#pragma once

#include <nlohmann/json.hpp>

#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// {"arena_bytes":…, "max_live_bytes":…, "fragmentation":…, "bytes_by_role":{…}, "programs":[…],
// "parameters":…, "flops_per_step":…, "predicted_step_ms":…, …}: bytes, FLOPs, milliseconds.
// "caching" is the memory that the caching allocator would take instead of the arena, "choices"
// what the solver chose of the keys that were left to it (trainer/resolve/knobs.h). On a GPU,
// process_bytes is the memory of the whole process and process_parts its breakdown; on the CPU both
// are null. "decisions" is plan_decisions.h; "version" of the program, "config" the configuration's
// keys and "given" those of them that were set are what plan_difference.h explains another plan by.
// "eight_bit_products" where there are 8-bit linear layers (code_products.h).
nlohmann::ordered_json PlanObject(
    const config::RunConfig& config, const models::Model& model, const CompiledStep& compiled,
    double predicted_seconds,
    const nlohmann::ordered_json& choices = nlohmann::ordered_json::object());

// {"parameter": bytes, "activation": bytes, …}
nlohmann::ordered_json ByRoleJson(const memory::BytesByRole& bytes);

}  // namespace plimsoll::trainer
