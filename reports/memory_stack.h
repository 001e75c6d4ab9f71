// A run's memory over one step by role, small enough for a page.
#pragma once

#include <nlohmann/json.hpp>

namespace plimsoll::reports {

// From memory_timeline.json of a run directory, parsed:
//   {"arena_bytes": …, "programs": [{
//      "name": "train", "nodes": 1234,
//      "at": [0, 3, …],                                  nodes that are shown, at most `samples`
//      "roles": {"parameter": [bytes at each], …},
//      "host": [bytes of pinned memory at each],         where the run uses any
//      "phases": [{"name": "forward", "from": 0, "to": 99}, …],   nodes, both included
//      "peak": {"node": 240, "bytes": …, "op": "…", "scope": "block.3.attn"}}, …]}
// Of nodes that stand together the one with the most bytes is shown, so the peak is among them.
nlohmann::ordered_json MemoryStack(const nlohmann::ordered_json& timeline, size_t samples = 480);

}  // namespace plimsoll::reports
