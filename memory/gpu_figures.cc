#include "memory/gpu_figures.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

namespace plimsoll::memory {
namespace {

struct Entry {
  std::string_view model;  // a word of the name
  std::string_view and_;   // another one, or none
  GpuFigures figures;
};

// NVIDIA's data sheets: the SXM cards, where there are others. An entry with two words comes before
// the one with the first alone.
constexpr Entry kEntries[] = {
    {"V100", "", {"NVIDIA V100", 125e12, 15.7e12, 15.7e12, 0.9e12, 16e9}},
    {"T4", "", {"NVIDIA T4", 65e12, 8.1e12, 8.1e12, 0.32e12, 16e9}},
    {"A100", "40GB", {"NVIDIA A100 40 GB", 312e12, 156e12, 19.5e12, 1.555e12, 32e9}},
    {"A100", "", {"NVIDIA A100 80 GB", 312e12, 156e12, 19.5e12, 2.039e12, 32e9}},
    {"H100", "", {"NVIDIA H100", 989e12, 494e12, 67e12, 3.35e12, 64e9}},
    {"H200", "", {"NVIDIA H200", 989e12, 494e12, 67e12, 4.8e12, 64e9}},
    {"4090", "", {"NVIDIA GeForce RTX 4090", 165e12, 82.6e12, 82.6e12, 1.008e12, 32e9}},
};

// Split where neither letters nor digits are; "40 GB" is one word.
std::vector<std::string> Words(const std::string& name) {
  std::vector<std::string> words = {""};
  for (char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "GB") words[i - 1] += "GB";
  }
  return words;
}

}  // namespace

const GpuFigures& MeasuredGpu() { return *FindGpuFigures("H200"); }

const GpuFigures* FindGpuFigures(const std::string& name) {
  const std::vector<std::string> words = Words(name);
  const auto has = [&](std::string_view word) {
    return word.empty() || std::find(words.begin(), words.end(), word) != words.end();
  };
  const auto found = std::ranges::find_if(
      kEntries, [&](const Entry& entry) { return has(entry.model) && has(entry.and_); });
  return found == std::end(kEntries) ? nullptr : &found->figures;
}

}  // namespace plimsoll::memory
