// The charts of memory_timeline.json: a run's memory over one step, small enough for a page.
#pragma once

#include <nlohmann/json.hpp>

namespace plimsoll::reports {

// Both functions take memory_timeline.json of a run directory, parsed, and describe those of its
// programs that have nodes by these members:
//   {"name": "train", "nodes": 1234,
//    "phases": [{"name": "forward", "from": 0, "to": 99}, …],   nodes, both included
//    "peak": {"node": 240, "bytes": …, "op": "…", "scope": "block.3.attn"}}

// By role, for the view "timeline":
//   {"arena_bytes": …, "programs": [{
//      …,                                                the members above
//      "at": [0, 3, …],                                  nodes that are shown, at most `samples`
//      "roles": {"parameter": [bytes at each], …},
//      "host": [bytes of pinned memory at each]}, …]}    where the run uses any
// Among neighbouring nodes, the one with the most bytes is shown, so the peak is always shown.
nlohmann::ordered_json MemoryStack(const nlohmann::ordered_json& timeline, size_t samples = 480);

// As rectangles, tensors by offset and lifetime, for the view "plan":
//   {"arena_bytes": …,
//    "persistent": [{"name", "type", "role", "offset", "bytes"}, …],
//    "programs": [{…,                                             the members above
//                  "tensors": [{"name", "type", "role", "op", "scope", "offset", "bytes",
//                               "birth", "death"}, …]}, …]}
// Shows only the device's arena.
nlohmann::ordered_json PlanRectangles(const nlohmann::ordered_json& timeline);

}  // namespace plimsoll::reports
