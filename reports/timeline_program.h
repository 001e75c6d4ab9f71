// Functions that the charts of memory_timeline.json share.
#pragma once

#include <nlohmann/json.hpp>

namespace plimsoll::reports {

// Describes a program of memory_timeline.json that has nodes:
//   {"name": "train", "nodes": 1234,
//    "phases": [{"name": "forward", "from": 0, "to": 99}, …],   nodes, both included
//    "peak": {"node": 240, "bytes": …, "op": "…", "scope": "block.3.attn"}}
nlohmann::ordered_json DescribeProgram(const nlohmann::ordered_json& program);

// Visits the tensors of a buffer, which follow one another in the same bytes: calls visit(tensor,
// birth, death) with the nodes, both included.
template <typename Visit>
void ForEachTensor(const nlohmann::ordered_json& buffer, const Visit& visit) {
  const nlohmann::ordered_json* tensor = &buffer;
  int64_t birth = buffer.at("birth");
  if (const auto then = buffer.find("then"); then != buffer.end()) {
    for (const nlohmann::ordered_json& next : *then) {
      const int64_t next_birth = next.at("birth");
      visit(*tensor, birth, next_birth - 1);
      tensor = &next;
      birth = next_birth;
    }
  }
  visit(*tensor, birth, buffer.at("death").get<int64_t>());
}

}  // namespace plimsoll::reports
