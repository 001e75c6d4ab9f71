#include "runtime/processor.h"

#include <fstream>

namespace plimsoll::runtime {

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (line.compare(0, 10, "model name") == 0 && colon != line.npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown processor";
}

}  // namespace plimsoll::runtime
