// A memory plan as rectangles: tensors at their offsets over their lifetimes.
#pragma once

#include <nlohmann/json.hpp>

namespace plimsoll::reports {

// From memory_timeline.json of a run directory, parsed, for the view "plan":
//   {"arena_bytes": …,
//    "persistent": [{"name", "type", "role", "offset", "bytes"}, …],
//    "programs": [{"name", "nodes", "phases", "peak",             as DescribeProgram() has them
//                  "tensors": [{"name", "type", "role", "op", "scope", "offset", "bytes",
//                               "birth", "death"}, …]}, …]}
// Of the device's arena only.
nlohmann::ordered_json PlanRectangles(const nlohmann::ordered_json& timeline);

}  // namespace plimsoll::reports
