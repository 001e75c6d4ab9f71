#include "gpu/architectures.h"

#include <cctype>
#include <cstdlib>

namespace plimsoll::gpu {

bool HasCodeFor(std::string_view architectures, int major, int minor) {
  while (!architectures.empty()) {
    const size_t comma = architectures.find(',');
    const std::string one(architectures.substr(0, comma));
    architectures.remove_prefix(comma == architectures.npos ? architectures.size() : comma + 1);
    const int number = std::atoi(one.c_str());
    const bool exact = !one.empty() && std::isalpha(static_cast<unsigned char>(one.back()));
    if (number / 10 != major) continue;
    if (number % 10 == minor || (!exact && number % 10 < minor)) return true;
  }
  return false;
}

std::string ArchitectureOf(int major, int minor) { return std::to_string(10 * major + minor); }

}  // namespace plimsoll::gpu
