// A run's memory over one step by role, small enough for a page.
#pragma once

#include <nlohmann/json.hpp>

namespace plimsoll::reports {

// From memory_timeline.json of a run directory, parsed:
//   {"arena_bytes": …, "programs": [{
//      "name", "nodes", "phases", "peak",                as DescribeProgram() has them
//      "at": [0, 3, …],                                  nodes that are shown, at most `samples`
//      "roles": {"parameter": [bytes at each], …},
//      "host": [bytes of pinned memory at each]}, …]}    where the run uses any
// Among neighbouring nodes, the one with the most bytes is shown, so the peak is always shown.
nlohmann::ordered_json MemoryStack(const nlohmann::ordered_json& timeline, size_t samples = 480);

}  // namespace plimsoll::reports
