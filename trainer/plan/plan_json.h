// The memory plan of programs as JSON: `plan --json` prints it, and a run saves it as plan.json.
#pragma once

#include <nlohmann/json.hpp>

#include "memory/cost_model.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// {"arena_bytes":…, "max_live_bytes":…, "fragmentation":…, "bytes_by_role":{…}, "programs":[…],
// "parameters":…, "flops_per_step":…, "predicted_step_ms":…, "rates":…, …}: bytes, FLOPs,
// milliseconds. "rates" says what predicted_step_ms is by: "by built-in rates of an NVIDIA H200"
// (RatesText). "caching" is the memory that the caching allocator would take instead of the arena.
// "choices" are the solver's choices for open keys (trainer/resolve/knobs.h). On a GPU,
// process_bytes is the memory of the complete process and process_parts its breakdown; on the CPU
// both are null. "decisions" comes from plan_decisions.h. plan_difference.h explains differences by
// "version" (the program's), "config" (the configuration's keys) and "given" (the keys that were
// set). "eight_bit_products" exists if there are 8-bit linear layers (code_products.h).
nlohmann::ordered_json PlanObject(
    const config::RunConfig& config, const models::Model& model, const CompiledStep& compiled,
    const memory::CostModel& cost, double predicted_seconds,
    const nlohmann::ordered_json& choices = nlohmann::ordered_json::object());

// {"parameter": bytes, "activation": bytes, …}
nlohmann::ordered_json ByRoleJson(const memory::BytesByRole& bytes);

}  // namespace plimsoll::trainer
