#include "gpu/architectures.h"

#include <cctype>
#include <cstdlib>
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

}  // namespace

bool HasCodeFor(std::string_view architectures, ComputeCapability gpu) {
  for (const Architecture& one : Parse(architectures)) {
    if (one.code.empty()) continue;
    const ComputeCapability code = Architecture::Of(one.code);
    const bool exact = std::isalpha(static_cast<unsigned char>(one.code.back()));
    if (code == gpu) return true;
    if (!exact && code.major == gpu.major && code < gpu) return true;
    if (!exact && one.ptx && Architecture::Of(one.features) <= gpu) return true;
  }
  return false;
}

bool HasHopperCode(std::string_view architectures) {
  for (const Architecture& one : Parse(architectures)) {
    if (one.features == "90" || one.features == "90a") return true;
  }
  return false;
}

std::string ArchitectureOf(ComputeCapability gpu) {
  return std::to_string(10 * gpu.major + gpu.minor);
}

}  // namespace plimsoll::gpu
