// The facts in a run's report.html in addition to its metrics.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/model.h"
#include "reports/run_page.h"
#include "runtime/device.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// `timeline` is MemoryTimelineJson(compiled), `ranks` the number of ranks that train together, and
// `class_names` the result of data::Source::class_names().
reports::RunFacts RunFactsOf(const config::RunConfig& config, const std::string& resolved_yaml,
                             const models::Model& model, const runtime::Device& device, int ranks,
                             const CompiledStep& compiled, const nlohmann::ordered_json& timeline,
                             std::vector<std::string> class_names);

}  // namespace plimsoll::trainer
