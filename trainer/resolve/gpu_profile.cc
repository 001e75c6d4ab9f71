#include "trainer/resolve/gpu_profile.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/axes.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "base/output_file.h"
#include "base/version.h"
#include "formats/json.h"
#include "trainer/resolve/calibration.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {
namespace {

using memory::DeviceProfile;

constexpr char kKind[] = "gpu";  // the file's kind

// Returns nothing if no file exists, or if the file has another version.
std::optional<DeviceProfile> Read(const std::string& folder, const std::string& gpu,
                                  int64_t memory_bytes) {
  const std::string path = CalibrationPath(folder, kKind, gpu);
  std::error_code error;
  if (folder.empty() || !std::filesystem::exists(path, error)) return std::nullopt;
  try {
    const formats::JsonObject file = formats::JsonObject::FromFile(path);
    if (file.RequireString("program") != Version() || file.RequireString("gpu") != gpu) {
      return std::nullopt;
    }
    DeviceProfile profile = memory::BuiltInGpuProfile(gpu, memory_bytes);
    const auto bytes = [&](const char* key) {
      constexpr int64_t kMost = int64_t{1} << 35;
      return file.RequireInt(key, 0, kMost);
    };
    profile.context_bytes = bytes("context_bytes");
    profile.code_bytes = bytes("code_bytes");
    profile.libraries_bytes = bytes("libraries_bytes");
    profile.communicators_bytes = bytes("communicators_bytes");
    profile.graphs_bytes = bytes("graphs_bytes");
    profile.measured = true;
    return profile;
  } catch (const UserError& problem) {
    PrintWarning(fmt::format("{}; the built-in profile is used", problem.what()));
    return std::nullopt;
  }
}

}  // namespace

std::string ProcessText(const DeviceProfile& profile, int64_t arena_bytes) {
  return fmt::format("process on {}: {} = arena {}, {} ({})", profile.device,
                     FormatBytes(profile.ProcessBytes(arena_bytes)), FormatBytes(arena_bytes),
                     memory::PartsText(profile),
                     profile.measured ? "as measured in earlier runs" : "as built in");
}

void TakeGpuAsBudget(config::RunConfig& config) {
  const memory::DeviceProfile profile = ProfileFrom(config);
  if (config.memory.budget || profile.device.empty()) return;
  const double bytes = kGpuShare * static_cast<double>(profile.memory_bytes);
  config.memory.budget = {.bytes = static_cast<int64_t>(bytes)};
}

std::string ProfileFolder(const config::RunConfig& config) {
  const std::string folder = CalibrationFolder(config);
  const Mesh mesh = MeshFrom(config);
  if (folder.empty() || mesh.size() == 1) return folder;
  std::string name;
  for (const MeshAxis& axis : AllAxes(mesh)) {
    if (axis.ranks == 1) continue;
    name += fmt::format("{}-{}-", axis.name, axis.ranks);
    // Data ranks may reduce maxima, for which NCCL takes buffers; tensor ranks always do.
    if (axis.reduces_maxima && axis.name == kDataAxis) name += "maxima-";
  }
  return fmt::format("{}/{}{}-channels", folder, name, config.parallel.nccl_max_ctas.value_or(0));
}

DeviceProfile ProfileFrom(const config::RunConfig& config) {
  if (DeviceFrom(config) == runtime::DeviceKind::kCpu) return {};
  const Mesh mesh = MeshFrom(config);
  const int64_t channels = config.parallel.nccl_max_ctas.value_or(0);
  if (const std::optional<Card> card = CardFrom(config)) {
    return LoadProfile(ProfileFolder(config), card->name, card->memory_bytes, mesh, channels);
  }
  const DeviceProfile alone = memory::BuiltInGpuProfile();
  return memory::BuiltInGpuProfile(alone.device, alone.memory_bytes, mesh, channels);
}

DeviceProfile LoadProfile(const std::string& folder, const std::string& gpu, int64_t memory_bytes,
                          const Mesh& mesh, int64_t channels) {
  const DeviceProfile built_in = memory::BuiltInGpuProfile(gpu, memory_bytes, mesh, channels);
  const std::optional<DeviceProfile> kept = Read(folder, gpu, memory_bytes);
  if (!kept) return built_in;
  // The built-in profile was measured on large models: a small model takes less.
  const bool known = gpu == memory::BuiltInGpuProfile().device;
  DeviceProfile profile =
      known && kept->overhead_bytes() < built_in.overhead_bytes() ? built_in : *kept;
  profile.channels = channels;
  return profile;
}

void KeepProfile(const std::string& folder, const DeviceProfile& measured) {
  if (folder.empty()) return;
  const std::optional<DeviceProfile> known = Read(folder, measured.device, measured.memory_bytes);
  const auto held = [](const DeviceProfile& profile) {
    return profile.overhead_bytes() - profile.reserve_bytes;
  };
  if (known && held(*known) >= held(measured)) return;
  const nlohmann::ordered_json json = {{"program", Version()},
                                       {"gpu", measured.device},
                                       {"context_bytes", measured.context_bytes},
                                       {"code_bytes", measured.code_bytes},
                                       {"libraries_bytes", measured.libraries_bytes},
                                       {"communicators_bytes", measured.communicators_bytes},
                                       {"graphs_bytes", measured.graphs_bytes}};
  try {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    WriteWhole(CalibrationPath(folder, kKind, measured.device), json.dump(1) + "\n");
  } catch (const UserError& problem) {
    PrintWarning(fmt::format("{}; the GPU's profile is not kept", problem.what()));
  }
}

}  // namespace plimsoll::trainer
