#include "memory/device_profile.h"

#include <fmt/format.h>

#include "base/axes.h"
#include "base/bytes.h"
#include "memory/interconnect.h"

namespace plimsoll::memory {

DeviceProfile BuiltInGpuProfile(const std::string& name, int64_t memory_bytes, const Mesh& mesh,
                                int64_t channels) {
  constexpr int64_t kMiB = 1 << 20;
  DeviceProfile profile;
  profile.device = name;
  profile.memory_bytes = memory_bytes;
  profile.page_bytes = 2 * kMiB;
  profile.context_bytes = 526 * kMiB;
  profile.code_bytes = 4 * kMiB;
  profile.libraries_bytes = 12 * kMiB;
  profile.communicators_bytes =
      CommunicatorBytes(mesh, channels > 0 ? static_cast<int>(channels) : kMostChannels);
  profile.channels = channels;
  const bool stages = mesh.Has(kPipelineAxis);  // stages record their programs once per slot
  profile.graphs_bytes = (stages ? 48 : mesh.size() == 1 ? 8 : 24) * kMiB;
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
  if (profile.communicators_bytes > 0) {
    add("communicators", profile.communicators_bytes);
    if (profile.channels > 0) text += fmt::format(" ({} channels)", profile.channels);
  }
  add("graphs", profile.graphs_bytes);
  if (profile.reserve_bytes > 0) add("reserve", profile.reserve_bytes);
  return text;
}

}  // namespace plimsoll::memory
