#include "reports/timeline_views.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;

ordered_json Phases(const ordered_json& nodes) {
  ordered_json phases = ordered_json::array();
  for (size_t n = 0; n < nodes.size(); ++n) {
    // A recomputed node counts as part of the backward pass, which needs it.
    std::string phase = nodes[n].at("phase");
    if (phase == "recompute") phase = "backward";
    if (phases.empty() || phases.back()["name"] != phase) {
      phases.push_back({{"name", phase}, {"from", n}});
    }
    phases.back()["to"] = n;
  }
  return phases;
}

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

// Visits the tensors of a buffer, which use the same bytes one after another: calls visit(tensor,
// birth, death) with the first and the last node of the tensor's lifetime.
template <typename Visit>
void ForEachTensor(const ordered_json& buffer, const Visit& visit) {
  const ordered_json* tensor = &buffer;
  int64_t birth = buffer.at("birth");
  if (const auto then = buffer.find("then"); then != buffer.end()) {
    for (const ordered_json& next : *then) {
      const int64_t next_birth = next.at("birth");
      visit(*tensor, birth, next_birth - 1);
      tensor = &next;
      birth = next_birth;
    }
  }
  visit(*tensor, birth, buffer.at("death").get<int64_t>());
}

using Series = std::map<std::string, std::vector<int64_t>>;  // bytes at each node, by role

// Adds the bytes at `birth` and subtracts them after `death`. The caller later turns these changes
// into running sums.
void Add(std::vector<int64_t>& bytes_at, int64_t birth, int64_t death, int64_t bytes) {
  if (birth > death) return;
  bytes_at[birth] += bytes;
  bytes_at[death + 1] -= bytes;
}

Series RolesOverNodes(const ordered_json& timeline, const ordered_json& program, size_t nodes) {
  Series roles;
  auto of = [&](const ordered_json& tensor) -> std::vector<int64_t>& {
    return roles.try_emplace(tensor.at("role").get<std::string>(), nodes + 1, 0).first->second;
  };
  const auto end = static_cast<int64_t>(nodes) - 1;
  for (const ordered_json& tensor : timeline.at("persistent")) {
    if (tensor.at("place") == "device") Add(of(tensor), 0, end, tensor.at("bytes"));
  }
  for (const ordered_json& buffer : program.at("buffers")) {
    if (buffer.at("place") != "device") continue;
    ForEachTensor(buffer, [&](const ordered_json& tensor, int64_t birth, int64_t death) {
      Add(of(tensor), birth, death, buffer.at("bytes"));
    });
  }
  for (auto& [role, bytes] : roles) std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  return roles;
}

// Selects one node of each group of neighbours: the one with the most bytes.
std::vector<size_t> Sample(const std::vector<int64_t>& live, size_t samples) {
  std::vector<size_t> at;
  const size_t count = std::min(samples, live.size());
  for (size_t i = 0; i < count; ++i) {
    const auto begin = live.begin() + static_cast<ptrdiff_t>(i * live.size() / count);
    const auto end = live.begin() + static_cast<ptrdiff_t>((i + 1) * live.size() / count);
    at.push_back(static_cast<size_t>(std::max_element(begin, end) - live.begin()));
  }
  return at;
}

ordered_json ProgramStack(const ordered_json& timeline, const ordered_json& program,
                          size_t samples) {
  const ordered_json& nodes = program.at("nodes");
  const auto live = program.at("live_bytes").get<std::vector<int64_t>>();
  const auto host = program.at("host_live_bytes").get<std::vector<int64_t>>();
  const std::vector<size_t> at = Sample(live, samples);
  auto sampled = [&](const std::vector<int64_t>& bytes) {
    ordered_json values = ordered_json::array();
    for (size_t node : at) values.push_back(bytes[node]);
    return values;
  };
  ordered_json roles = ordered_json::object();
  for (const auto& [role, bytes] : RolesOverNodes(timeline, program, nodes.size())) {
    roles[role] = sampled(bytes);
  }
  ordered_json stack = DescribeProgram(program);
  stack["at"] = at;
  stack["roles"] = std::move(roles);
  if (*std::max_element(host.begin(), host.end()) > 0) stack["host"] = sampled(host);
  return stack;
}

ordered_json Members(const ordered_json& object, std::initializer_list<const char*> keys) {
  ordered_json members = ordered_json::object();
  for (const char* key : keys) members[key] = object.at(key);
  return members;
}

}  // namespace

ordered_json MemoryStack(const ordered_json& timeline, size_t samples) {
  ordered_json stack = {{"arena_bytes", timeline.at("arena_bytes")},
                        {"programs", ordered_json::array()}};
  for (const ordered_json& program : timeline.at("programs")) {
    if (program.at("nodes").empty()) continue;
    stack["programs"].push_back(ProgramStack(timeline, program, samples));
  }
  return stack;
}

ordered_json PlanRectangles(const ordered_json& timeline) {
  ordered_json persistent = ordered_json::array(), programs = ordered_json::array();
  for (const ordered_json& tensor : timeline.at("persistent")) {
    if (tensor.at("place") != "device") continue;
    persistent.push_back(Members(tensor, {"name", "type", "role", "offset", "bytes"}));
  }
  for (const ordered_json& program : timeline.at("programs")) {
    if (program.at("nodes").empty()) continue;
    ordered_json tensors = ordered_json::array();
    for (const ordered_json& buffer : program.at("buffers")) {
      if (buffer.at("place") != "device") continue;
      ForEachTensor(buffer, [&](const ordered_json& tensor, int64_t birth, int64_t death) {
        ordered_json rectangle = Members(tensor, {"name", "type", "role", "op", "scope"});
        rectangle["offset"] = buffer.at("offset");
        rectangle["bytes"] = buffer.at("bytes");
        rectangle["birth"] = birth;
        rectangle["death"] = death;
        tensors.push_back(std::move(rectangle));
      });
    }
    programs.push_back(DescribeProgram(program));
    programs.back()["tensors"] = std::move(tensors);
  }
  return {{"arena_bytes", timeline.at("arena_bytes")},
          {"persistent", std::move(persistent)},
          {"programs", std::move(programs)}};
}

}  // namespace plimsoll::reports
