#include "trainer/settle/known_gpus.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "base/spelling.h"

namespace plimsoll::trainer {
namespace {

// From NVIDIA's data sheets and its list of compute capabilities.
constexpr KnownGpu kGpus[] = {
    {"v100", "NVIDIA V100", 7, 0, 16},
    {"v100-32gb", "NVIDIA V100 32 GB", 7, 0, 32},
    {"t4", "NVIDIA T4", 7, 5, 16},
    {"a100", "NVIDIA A100 80 GB", 8, 0, 80},
    {"a100-40gb", "NVIDIA A100 40 GB", 8, 0, 40},
    {"h100", "NVIDIA H100", 9, 0, 80},
    {"h200", "NVIDIA H200", 9, 0, 140},
    {"4090", "NVIDIA GeForce RTX 4090", 8, 9, 24},
};

}  // namespace

std::span<const KnownGpu> KnownGpus() { return kGpus; }

std::string DeviceNames() {
  std::string names = "cpu";
  for (const KnownGpu& gpu : kGpus) names += fmt::format(", {}", gpu.key);
  return names;
}

const KnownGpu& RequireGpu(const std::string& key) {
  std::vector<std::string> keys;
  for (const KnownGpu& gpu : kGpus) {
    if (key == gpu.key) return gpu;
    keys.push_back(gpu.key);
  }
  const std::string nearest = NearestName(key, keys);
  throw UserError(fmt::format("--device {}: unknown{}; there are {}", key,
                              nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest),
                              DeviceNames()));
}

}  // namespace plimsoll::trainer
