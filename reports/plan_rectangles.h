// A memory plan as rectangles: tensors by offset and lifetime.
#pragma once

#include <nlohmann/json.hpp>

namespace plimsoll::reports {

// From memory_timeline.json of a run directory, parsed, for the view "plan":
//   {"arena_bytes": …,
//    "persistent": [{"name", "type", "role", "offset", "bytes"}, …],
//    "programs": [{"name", "nodes", "phases", "peak",             as DescribeProgram() has them
//                  "tensors": [{"name", "type", "role", "op", "scope", "offset", "bytes",
//                               "birth", "death"}, …]}, …]}
// Shows only the device's arena.
nlohmann::ordered_json PlanRectangles(const nlohmann::ordered_json& timeline);

}  // namespace plimsoll::reports
