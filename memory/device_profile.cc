#include "memory/device_profile.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace plimsoll::memory {

DeviceProfile BuiltInGpuProfile(const std::string& name, int64_t memory_bytes, int axes) {
  constexpr int64_t kMiB = 1 << 20;
  DeviceProfile profile;
  profile.device = name;
  profile.memory_bytes = memory_bytes;
  profile.page_bytes = 2 * kMiB;
  profile.context_bytes = 526 * kMiB;
  profile.code_bytes = 4 * kMiB;
  profile.libraries_bytes = 12 * kMiB;
  // The first also loads NCCL's kernels.
  if (axes > 0) profile.communicators_bytes = (670 + (axes - 1) * 292) * kMiB;
  profile.graphs_bytes = (axes > 0 ? 24 : 8) * kMiB;
  profile.reserve_bytes = 52 * kMiB;
  return profile;
}

std::string PartsText(const DeviceProfile& profile) {
  std::string text;
  const auto add = [&](const char* name, int64_t bytes) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, FormatBytes(bytes));
  };
  add("context", profile.context_bytes);
  add("code", profile.code_bytes);
  add("libraries", profile.libraries_bytes);
  if (profile.communicators_bytes > 0) add("communicators", profile.communicators_bytes);
  add("graphs", profile.graphs_bytes);
  if (profile.reserve_bytes > 0) add("reserve", profile.reserve_bytes);
  return text;
}

}  // namespace plimsoll::memory
