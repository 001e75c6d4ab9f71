#include "memory/device_profile.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace plimsoll::memory {

DeviceProfile BuiltInGpuProfile(const std::string& name, int64_t memory_bytes) {
  constexpr int64_t kMiB = 1 << 20;
  DeviceProfile profile;
  profile.device = name;
  profile.memory_bytes = memory_bytes;
  profile.page_bytes = 2 * kMiB;
  profile.context_bytes = 526 * kMiB;
  profile.code_bytes = 4 * kMiB;
  profile.libraries_bytes = 12 * kMiB;
  profile.graphs_bytes = 8 * kMiB;
  profile.reserve_bytes = 52 * kMiB;
  return profile;
}

std::string PartsText(const DeviceProfile& profile) {
  const std::string reserve =
      profile.reserve_bytes > 0 ? ", reserve " + FormatBytes(profile.reserve_bytes) : "";
  return fmt::format("context {}, code {}, libraries {}, graphs {}{}",
                     FormatBytes(profile.context_bytes), FormatBytes(profile.code_bytes),
                     FormatBytes(profile.libraries_bytes), FormatBytes(profile.graphs_bytes),
                     reserve);
}

}  // namespace plimsoll::memory
