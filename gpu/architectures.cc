#include "gpu/architectures.h"

#include <cctype>
#include <cstdlib>
#include <optional>
#include <vector>

namespace plimsoll::gpu {
namespace {

// One entry of the list: "80:90", "90a", "120+ptx".
struct Architecture {
  explicit Architecture(std::string_view text) {
    ptx = text.ends_with("+ptx");
    if (ptx) text.remove_suffix(4);
    const size_t colon = text.find(':');
    features = text.substr(0, colon);
    code = colon == text.npos ? features : std::string(text.substr(colon + 1));
  }
  static ComputeCapability Of(const std::string& name) {
    const int number = std::atoi(name.c_str());
    return {number / 10, number % 10};
  }

  std::string features, code;
  bool ptx;
};

std::vector<Architecture> Parse(std::string_view list) {
  std::vector<Architecture> architectures;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    architectures.emplace_back(list.substr(0, comma));
    list.remove_prefix(comma == list.npos ? list.size() : comma + 1);
  }
  return architectures;
}

// The features of the code that runs on a GPU: machine code if there is any, the latest of it.
std::optional<ComputeCapability> FeaturesOn(std::string_view list, ComputeCapability gpu) {
  std::optional<ComputeCapability> machine, ptx;
  ComputeCapability latest{0, 0};
  for (const Architecture& one : Parse(list)) {
    if (one.code.empty()) continue;
    const ComputeCapability features = Architecture::Of(one.features);
    const ComputeCapability code = Architecture::Of(one.code);
    const bool exact = std::isalpha(static_cast<unsigned char>(one.code.back()));
    const bool runs = code == gpu || (!exact && code.major == gpu.major && code < gpu);
    if (runs && code >= latest) {
      latest = code;
      machine = features;
    }
    if (one.ptx && !exact && features <= gpu && (!ptx || features > *ptx)) ptx = features;
  }
  return machine ? machine : ptx;
}

}  // namespace

bool HasCodeFor(std::string_view architectures, ComputeCapability gpu) {
  return FeaturesOn(architectures, gpu).has_value();
}

ComputeCapability KernelCapability(std::string_view architectures, ComputeCapability gpu,
                                   ComputeCapability wanted) {
  constexpr ComputeCapability kHopper{9, 0}, kLeastMemory{8, 6};
  const auto features = FeaturesOn(architectures, gpu);
  if (!features || *features >= kHopper || features->major >= wanted.major) return wanted;
  return features->shared_bytes() <= wanted.shared_bytes() ? *features : kLeastMemory;
}

std::string ArchitectureOf(ComputeCapability gpu) {
  return std::to_string(10 * gpu.major + gpu.minor);
}

}  // namespace plimsoll::gpu
