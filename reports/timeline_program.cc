#include "reports/timeline_program.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;

ordered_json Phases(const ordered_json& nodes) {
  ordered_json phases = ordered_json::array();
  for (size_t n = 0; n < nodes.size(); ++n) {
    // A recomputed node belongs to the backward pass, which needs it.
    std::string phase = nodes[n].at("phase");
    if (phase == "recompute") phase = "backward";
    if (phases.empty() || phases.back()["name"] != phase) {
      phases.push_back({{"name", phase}, {"from", n}});
    }
    phases.back()["to"] = n;
  }
  return phases;
}

}  // namespace

ordered_json DescribeProgram(const ordered_json& program) {
  const ordered_json& nodes = program.at("nodes");
  const auto live = program.at("live_bytes").get<std::vector<int64_t>>();
  const auto peak = static_cast<size_t>(std::max_element(live.begin(), live.end()) - live.begin());
  return {{"name", program.at("name")},
          {"nodes", nodes.size()},
          {"phases", Phases(nodes)},
          {"peak",
           {{"node", peak},
            {"bytes", live[peak]},
            {"op", nodes[peak].at("op")},
            {"scope", nodes[peak].at("scope")}}}};
}

}  // namespace plimsoll::reports
