// Pictures of a memory plan.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "memory/plan.h"
#include "models/model.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// The live bytes at the peak, as bars of reports/README.md: a bar for each role, or for each block
// of the model, divided by role.
nlohmann::ordered_json PeakByRole(const memory::MemoryPlan& plan);
nlohmann::ordered_json PeakByBlock(const memory::MemoryPlan& plan);

// The facts about a plan that the page lists: [[name, value], …].
nlohmann::ordered_json PlanFacts(const models::Model& model, const CompiledStep& compiled);

// The HTML page of `plimsoll plan --html`. `arena_budget` is drawn as a line.
std::string PlanPage(const models::Model& model, const CompiledStep& compiled,
                     const std::string& title, const std::optional<int64_t>& arena_budget);

// "8 sequences of 64 tokens", or "8 samples" if the model reads no sequences.
std::string BatchText(const CompileOptions& options);

}  // namespace plimsoll::trainer
