// What can be told of a run that has not come to its end, from what it has written so far.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "trainer/record/run_metrics.h"

namespace plimsoll::studies {

// How far it came, and whether it goes on: "37 of 100 steps so far; process 12 on host a trains
// there", "stopped after 37 of 100 steps; it left snapshots".
std::string DescribeUnfinished(const std::string& directory, const trainer::RunMetrics& metrics);

// The members of summary.json that plan.json and config.yaml know as well. Empty where there is no
// plan.
nlohmann::ordered_json SummaryOfUnfinished(const std::string& directory,
                                           const trainer::RunMetrics& metrics);

}  // namespace plimsoll::studies
