// Describes a run that has not finished, from the files that it has written so far.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "trainer/record/run_metrics.h"

namespace plimsoll::studies {

// How far the run came, and whether it still runs: "37 of 100 steps so far; process 12 on host a
// trains there", "stopped after 37 of 100 steps; it left snapshots".
std::string DescribeUnfinished(const std::string& directory, const trainer::RunMetrics& metrics);

// The members of summary.json that follow from plan.json and config.yaml. Empty if there is no
// plan.
nlohmann::ordered_json SummaryOfUnfinished(const std::string& directory,
                                           const trainer::RunMetrics& metrics);

}  // namespace plimsoll::studies
