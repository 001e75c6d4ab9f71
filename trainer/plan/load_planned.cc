#include "trainer/plan/load_planned.h"

#include <algorithm>
#include <string>
#include <vector>

#include "trainer/resolve/dtype_warning.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/known_gpus.h"

namespace plimsoll::trainer {
namespace {

// Leaves the layout of ranks open, whatever the file says; what the command sets stays.
std::vector<std::string> OpenLayout(const std::vector<std::string>& sets) {
  std::vector<std::string> open;
  for (const std::string key : {"parallel.data", "parallel.tensor", "parallel.zero"}) {
    const bool set = std::ranges::any_of(
        sets, [&](const std::string& set) { return set.starts_with(key + "="); });
    if (!set) open.push_back(key + "=auto");
  }
  return open;
}

}  // namespace

config::Loaded LoadPlanned(const PlanCommand& command, const std::vector<std::string>& sets,
                           const config::RankCount& ranks) {
  std::vector<std::string> all = command.sets;
  all.insert(all.end(), sets.begin(), sets.end());
  const auto load = [&](const std::string& gpu) {
    config::Loaded loaded = LoadRun(command.file, all, ranks);
    loaded.config.planned_gpu = gpu;
    WarnOfDtype(loaded);
    return loaded;
  };
  if (command.device == "cpu") {
    all.push_back("device=cpu");
    return load("");
  }
  if (!command.device.empty()) {
    RequireGpu(command.device);
    all.push_back("device=cuda");
    return load(command.device);
  }
  const config::Loaded loaded = load("");
  const std::string& gpu = loaded.config.memory.device;
  if (gpu.empty()) return loaded;
  if (loaded.config.device == config::Device::kCpu) {
    throw loaded.config.Error("memory.device",
                              "names a GPU, and device is cpu; remove one of the two");
  }
  all.push_back("device=cuda");
  return load(gpu);
}

config::Loaded LoadRanks(const PlanCommand& command) {
  return LoadPlanned(command, OpenLayout(command.sets),
                     config::RankCount::AskedBy("--ranks", command.ranks));
}

}  // namespace plimsoll::trainer
