// What is kept of a training step: its row of metrics.jsonl, or the error that ends the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/caching_allocator.h"
#include "trainer/config/run_config.h"
#include "trainer/progress.h"
#include "trainer/session.h"

namespace plimsoll::trainer {

// One line of JSON. `gpu_bytes`: of the process; `caching`: of the caching allocator, nullptr
// where the planned arena is in use.
std::string MetricsRow(const StepReport& report, const std::optional<int64_t>& gpu_bytes,
                       const runtime::CachingStats* caching);

// UserError when loss or gradient are not finite. A step that was skipped because a scaled gradient
// overflowed is no reason to stop; amp.max_skips in a row are.
void RequireFinite(const config::RunConfig& config, int64_t step, const StepMetrics& metrics);

}  // namespace plimsoll::trainer
