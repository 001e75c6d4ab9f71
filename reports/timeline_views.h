// Data for charts of memory_timeline.json: a run's memory over one step, small enough for a page.
#pragma once

#include <nlohmann/json.hpp>

namespace plimsoll::reports {

// Both functions take a run's memory_timeline.json, parsed. Each of its programs that has nodes is
// described by these members:
//   {"name": "train", "nodes": 1234,
//    "phases": [{"name": "forward", "from": 0, "to": 99}, …],   first and last node
//    "peak": {"node": 240, "bytes": …, "op": "…", "scope": "block.3.attn"}}

// Bytes by role, for the view "timeline":
//   {"arena_bytes": …, "programs": [{
//      …,                                                the members listed above
//      "at": [0, 3, …],                                  shown nodes, at most `samples`
//      "roles": {"parameter": [bytes at each], …},
//      "host": [bytes of pinned memory at each]}, …]}    if the run uses any
// Among neighbouring nodes, the one with the most bytes is shown, so the peak is always shown.
nlohmann::ordered_json MemoryStack(const nlohmann::ordered_json& timeline, size_t samples = 480);

// Tensors as rectangles by offset and lifetime, for the view "plan":
//   {"arena_bytes": …,
//    "persistent": [{"name", "type", "role", "offset", "bytes"}, …],
//    "programs": [{…,                                             the members listed above
//                  "tensors": [{"name", "type", "role", "op", "scope", "offset", "bytes",
//                               "birth", "death"}, …]}, …]}
// Only the device's arena is shown.
nlohmann::ordered_json PlanRectangles(const nlohmann::ordered_json& timeline);

}  // namespace plimsoll::reports
