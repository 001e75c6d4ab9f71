#include "runtime/process_cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "runtime/control_groups.h"

namespace plimsoll::runtime {
namespace {

// The quota of the group's own limit. Version 2 stores quota and period in cpu.max, in
// microseconds: "max 100000", "150000 100000". Version 1 has one file for each of the two; a quota
// of −1 means no limit.
double QuotaOf(const ControlGroup& group) {
  int64_t quota = -1, period = 0;
  SystemText text;
  if (!group.unified) {
    quota = NumberIn(group.File("/cpu.cfs_quota_us").data(), -1);
    period = NumberIn(group.File("/cpu.cfs_period_us").data(), 0);
  } else if (ReadSystemText(group.File("/cpu.max").data(), text)) {
    char *end = nullptr, *last = nullptr;
    quota = std::strtoll(text.data(), &end, 10);
    period = std::strtoll(end, &last, 10);
    if (end == text.data() || last == end) quota = -1;
  }
  if (quota <= 0 || period <= 0) return ProcessCores::kNoLimit;
  return static_cast<double>(quota) / static_cast<double>(period);
}

// Rounds up to full cores, but ignores rounding errors.
int UpToWhole(double cores) {
  constexpr double kRounding = 1e-6, kMost = 1 << 20;
  return std::max(1, static_cast<int>(std::ceil(std::min(cores, kMost) - kRounding)));
}

}  // namespace

int ProcessCores::count() const {
  return std::min(static_cast<int>(numbers.size()), UpToWhole(quota));
}

ProcessCores MeasureProcessCores(const char* root) {
  ProcessCores cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    cores.numbers.clear();
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.numbers.push_back(core);
    }
  }
  ForEachControlGroup(root, "cpu", [&](const ControlGroup& group) {
    const double quota = QuotaOf(group);
    if (quota >= cores.quota) return;
    cores.quota = quota;
    cores.group_id = group.Id();
  });
  return cores;
}

int ShareOfCores(std::span<const ProcessCores> processes, size_t process) {
  const ProcessCores& own = processes[process];
  const auto share = [&](auto shares) {
    return 1.0 / static_cast<double>(std::ranges::count_if(processes, shares));
  };
  double cores = 0;
  for (const int core : own.numbers) {
    cores += share(
        [&](const ProcessCores& other) { return std::ranges::binary_search(other.numbers, core); });
  }
  // Rounds down, because after rounding up two processes on three cores would keep four threads
  // busy.
  constexpr double kRounding = 1e-6;
  const int whole = std::max(1, static_cast<int>(cores + kRounding));
  if (own.quota == ProcessCores::kNoLimit) return whole;
  const double quota = own.quota * share([&](const ProcessCores& other) {
                         return other.quota == own.quota && other.group_id == own.group_id;
                       });
  return std::min(whole, UpToWhole(quota));
}

}  // namespace plimsoll::runtime
