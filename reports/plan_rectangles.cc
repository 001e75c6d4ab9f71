#include "reports/plan_rectangles.h"

#include <cstdint>
#include <utility>

#include "reports/timeline_program.h"

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;

ordered_json Members(const ordered_json& object, std::initializer_list<const char*> keys) {
  ordered_json members = ordered_json::object();
  for (const char* key : keys) members[key] = object.at(key);
  return members;
}

}  // namespace

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
