#include "trainer/settle/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "runtime/process_memory.h"
#include "trainer/settle/host_memory.h"

namespace plimsoll::trainer {
std::string FirstProblem(runtime::RankGroup& ranks, FunctionRef<void()> action) {
  std::string here;
  try {
    action();
  } catch (const UserError& error) {
    here = error.what();
  }
  const std::vector<std::string> all = ranks.Gather(here);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) {
      return all.size() == 1 ? all[rank] : fmt::format("rank {}: {}", rank, all[rank]);
    }
  }
  return "";
}

bool Ranks::Any(bool here) {
  const std::vector<std::string> all = world_.Gather(here ? "1" : "0");
  return std::ranges::find(all, "1") != all.end();
}

void Ranks::RequireHostMemory(const CompiledStep& compiled) {
  const runtime::DeviceKind device = compiled.options.device;
  const int64_t on_device =
      device == runtime::DeviceKind::kCpu ? compiled.plan.arena_bytes : int64_t{0};
  trainer::RequireHostMemory(world_, on_device + compiled.plan.host_arena_bytes, device,
                             runtime::MeasureAvailableMemory());
}

}  // namespace plimsoll::trainer
