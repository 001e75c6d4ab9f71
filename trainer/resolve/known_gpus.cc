#include "trainer/resolve/known_gpus.h"

#include <fmt/format.h>

#include <cctype>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/spelling.h"

namespace plimsoll::trainer {
namespace {

// Sources: NVIDIA's data sheets, its list of compute capabilities, and nvidia-smi.
constexpr KnownGpu kGpus[] = {
    {"t4", "NVIDIA T4", {7, 5}, 16, 15360},
    {"a100", "NVIDIA A100 80 GB", {8, 0}, 80, 81920},
    {"a100-40gb", "NVIDIA A100 40 GB", {8, 0}, 40, 40960},
    {"h100", "NVIDIA H100", {9, 0}, 80, 81559},
    {"h200", "NVIDIA H200", {9, 0}, 141, 143155},
    {"b200", "NVIDIA B200", {10, 0}, 180, 183359},
    {"gb200", "NVIDIA GB200", {10, 0}, 186, 189471},
    {"a10", "NVIDIA A10", {8, 6}, 24, 23028},
    {"a5000", "NVIDIA RTX A5000", {8, 6}, 24, 24564},
    {"a6000", "NVIDIA RTX A6000", {8, 6}, 48, 49140},
    {"l4", "NVIDIA L4", {8, 9}, 24, 23034},
    {"l40s", "NVIDIA L40S", {8, 9}, 48, 46068},
    {"rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation", {8, 9}, 48, 49140},
    {"rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell", {12, 0}, 96, 97887},
    {"3060", "NVIDIA GeForce RTX 3060", {8, 6}, 12, 12288},
    {"3080", "NVIDIA GeForce RTX 3080", {8, 6}, 10, 10240},
    {"3090", "NVIDIA GeForce RTX 3090", {8, 6}, 24, 24576},
    {"4060ti", "NVIDIA GeForce RTX 4060 Ti 16 GB", {8, 9}, 16, 16380},
    {"4060ti-8gb", "NVIDIA GeForce RTX 4060 Ti 8 GB", {8, 9}, 8, 8188},
    {"4070", "NVIDIA GeForce RTX 4070", {8, 9}, 12, 12282},
    {"4080", "NVIDIA GeForce RTX 4080", {8, 9}, 16, 16376},
    {"4090", "NVIDIA GeForce RTX 4090", {8, 9}, 24, 24564},
    {"5080", "NVIDIA GeForce RTX 5080", {12, 0}, 16, 16303},
    {"5090", "NVIDIA GeForce RTX 5090", {12, 0}, 32, 32607},
};

// The part of a name that tells cards apart: "RTX 4090" and "rtx-4090" give 4090, "RTX 6000 Ada
// Generation" gives 6000ada.
std::string Compact(std::string_view name) {
  std::string compact;
  for (const unsigned char c : name) {
    if (std::isalnum(c)) compact += static_cast<char>(std::tolower(c));
  }
  for (const std::string_view maker : {"nvidia", "geforce", "tesla", "rtx"}) {
    if (compact.starts_with(maker)) compact.erase(0, maker.size());
  }
  for (const std::string_view end :
       {"workstationedition", "serveredition", "generation", "blackwell"}) {
    if (compact.ends_with(end)) compact.resize(compact.size() - end.size());
  }
  return compact;
}

// Whether `compact` is the GPU's key, its name, or either with its memory: "a100-80gb".
bool IsCalled(const KnownGpu& gpu, const std::string& compact) {
  const std::string memory = fmt::format("{}gb", gpu.sold_gb);
  for (const char* name : {gpu.key, gpu.name}) {
    if (compact == Compact(name) || compact == Compact(name) + memory) return true;
  }
  return false;
}

}  // namespace

std::span<const KnownGpu> KnownGpus() { return kGpus; }

std::string DeviceNames() {
  std::string names = "cpu";
  for (const KnownGpu& gpu : kGpus) names += fmt::format(", {}", gpu.key);
  return names;
}

const KnownGpu& RequireGpu(const std::string& key, const std::string& option) {
  std::vector<std::string> keys;
  const std::string compact = Compact(key);
  for (const KnownGpu& gpu : kGpus) {
    if (IsCalled(gpu, compact)) return gpu;
    keys.push_back(gpu.key);
  }
  const std::string nearest = NearestName(key, keys);
  std::string why = "unknown";
  if (compact.starts_with("v100") || compact.starts_with("p100")) {
    why = "has a compute capability before 7.5, where CUDA 13 begins: no build has code for it";
  } else if (!nearest.empty()) {
    why += fmt::format(" (did you mean {}?)", nearest);
  }
  throw UserError(
      fmt::format("{} {}: {}; there are {}", option, Shortened(key), why, DeviceNames()));
}

}  // namespace plimsoll::trainer
