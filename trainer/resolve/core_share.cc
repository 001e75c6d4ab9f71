#include "trainer/resolve/core_share.h"

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/process_cores.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;
using runtime::ProcessCores;

constexpr int kUnknown = 0;
std::atomic<int> share = kUnknown;

json ToJson(const ProcessCores& cores) {
  json object = {{"numbers", cores.numbers}, {"group", cores.group_id}};
  if (cores.quota != ProcessCores::kNoLimit) object["quota"] = cores.quota;
  return object;
}

ProcessCores CoresFrom(const json& object) {
  return {.numbers = object.at("numbers"),
          .quota = object.value("quota", ProcessCores::kNoLimit),
          .group_id = object.at("group")};
}

}  // namespace

void ShareCores(runtime::World& world) {
  if (world.size() == 1) return;
  json own = ToJson(runtime::MeasureProcessCores());
  own["leader"] = world.host_leader();
  std::vector<ProcessCores> host;
  size_t rank = 0, number = 0;
  for (const std::string& text : world.Gather(own.dump())) {
    const json other = json::parse(text);
    if (static_cast<int>(rank) == world.rank()) number = host.size();
    ++rank;
    if (other.at("leader") == world.host_leader()) host.push_back(CoresFrom(other));
  }
  share = runtime::ShareOfCores(host, number);
}

int CoresOfRank() {
  const int own = OwnCores(), known = share;
  return known == kUnknown ? own : std::min(own, known);
}

}  // namespace plimsoll::trainer
