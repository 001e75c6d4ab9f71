#include "trainer/settle/host_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;
using runtime::AvailableMemoryBytes;

// Ranks that take from the same memory: of a host, or of a control group there.
struct Sharing {
  std::vector<size_t> ranks;
  int64_t bytes = 0;
  int64_t most = 0;  // of one rank
  int64_t available = AvailableMemoryBytes::kNoLimit;

  void Add(size_t rank, int64_t of_rank, int64_t left) {
    ranks.push_back(rank);
    bytes += of_rank;
    most = std::max(most, of_rank);
    available = std::min(available, left);
  }
  bool Fits() const { return ranks.size() == 1 || bytes <= available; }
};

std::string DescribeLack(const Sharing& sharing, const std::string& host, bool limited,
                         runtime::DeviceKind device) {
  const auto count = static_cast<int64_t>(sharing.ranks.size());
  const bool gpu = device == runtime::DeviceKind::kCuda;
  const std::string text = fmt::format(
      "ranks {} on host {} need {} of its memory together for {}, at most {} of it each, but {} {}",
      fmt::join(sharing.ranks, ", "), host, FormatBytes(sharing.bytes),
      gpu ? "what their plans keep on the host" : "their plans", FormatBytes(sharing.most),
      limited ? "their control group (a container's or a batch job's limit) leaves"
              : "the host has",
      FormatBytes(std::max<int64_t>(sharing.available, 0)));
  if (!gpu) return text + "; fewer ranks on a host, or a smaller train.micro_batch, need less";
  return text + fmt::format(
                    "; keep more on the GPUs (memory.weights, memory.gradients, optimizer.place, "
                    "checkpointing.offload), start fewer ranks on a host, or set "
                    "memory.host_budget, which is each rank's, to at most {}",
                    FormatBytes(std::max<int64_t>(sharing.available, 0) / count));
}

HostShare ShareFrom(const std::string& text) {
  const json told = json::parse(text);
  return {.leader = told.at("leader"),
          .host = told.at("host"),
          .bytes = told.at("bytes"),
          .available = {.machine = told.at("machine"),
                        .group = told.at("group"),
                        .group_id = told.at("group_id")}};
}

}  // namespace

std::string HostMemoryProblem(std::span<const HostShare> ranks, runtime::DeviceKind device) {
  // By host and control group; 0: the whole host.
  std::map<std::pair<int64_t, uint64_t>, Sharing> all;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const HostShare& share = ranks[rank];
    const AvailableMemoryBytes& available = share.available;
    all[{share.leader, 0}].Add(rank, share.bytes, available.machine);
    if (available.group == AvailableMemoryBytes::kNoLimit) continue;
    all[{share.leader, available.group_id}].Add(rank, share.bytes, available.group);
  }
  for (const auto& [place, sharing] : all) {
    if (sharing.Fits()) continue;
    return DescribeLack(sharing, ranks[sharing.ranks.front()].host, place.second != 0, device);
  }
  return "";
}

void RequireHostMemory(runtime::World& world, int64_t bytes, runtime::DeviceKind device,
                       const AvailableMemoryBytes& available) {
  const std::string here = json{{"leader", world.host_leader()},
                                {"host", world.host()},
                                {"bytes", bytes},
                                {"machine", available.machine},
                                {"group", available.group},
                                {"group_id", available.group_id}}
                               .dump();
  std::vector<HostShare> ranks;
  for (const std::string& text : world.Gather(here)) ranks.push_back(ShareFrom(text));
  const std::string problem = HostMemoryProblem(ranks, device);
  if (!problem.empty()) throw UserError(problem, ExitCode::kBudgetNotMet);
}

}  // namespace plimsoll::trainer
