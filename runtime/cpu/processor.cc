#include "runtime/cpu/processor.h"

#include <cstdlib>
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

std::optional<double> ProcessorMhz() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  double sum = 0;
  int cores = 0;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (line.compare(0, 7, "cpu MHz") != 0 || colon == line.npos) continue;
    sum += std::strtod(line.c_str() + colon + 2, nullptr);
    ++cores;
  }
  if (cores == 0) return std::nullopt;
  return sum / cores;
}

}  // namespace plimsoll::runtime
