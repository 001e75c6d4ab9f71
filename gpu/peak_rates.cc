#include "gpu/peak_rates.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <vector>

namespace plimsoll::gpu {
namespace {

struct Known {
  std::string_view model, variant;  // words of the GPU's name; the first matching entry counts
  PeakRates rates;
};
constexpr Known kKnown[] = {
    {"T4", "", {"NVIDIA T4", 65e12, 0, 8.1e12, 8.1e12, 0.32e12, 16e9, 16e9}},
    {"A100", "40GB", {"NVIDIA A100 40 GB", 312e12, 0, 156e12, 19.5e12, 1.555e12, 32e9, 300e9}},
    {"A100", "", {"NVIDIA A100 80 GB", 312e12, 0, 156e12, 19.5e12, 2.039e12, 32e9, 300e9}},
    {"H100", "PCIe", {"NVIDIA H100 PCIe", 756e12, 1513e12, 378e12, 51e12, 2.0e12, 64e9, 64e9}},
    {"H100", "NVL", {"NVIDIA H100 NVL", 835e12, 1671e12, 418e12, 60e12, 3.9e12, 64e9, 300e9}},
    {"H100", "", {"NVIDIA H100", 989e12, 1979e12, 494e12, 67e12, 3.35e12, 64e9, 450e9}},
    {"H200", "NVL", {"NVIDIA H200 NVL", 835e12, 1671e12, 418e12, 60e12, 4.8e12, 64e9, 450e9}},
    {"H200", "", {"NVIDIA H200", 989e12, 1979e12, 494e12, 67e12, 4.8e12, 64e9, 450e9}},
    {"B200", "", {"NVIDIA B200", 2250e12, 4500e12, 1125e12, 75e12, 8e12, 64e9, 900e9}},
    {"A10", "", {"NVIDIA A10", 125e12, 0, 62.5e12, 31.2e12, 0.6e12, 32e9, 32e9}},
    {"A6000", "", {"NVIDIA RTX A6000", 154.8e12, 0, 77.4e12, 38.7e12, 0.768e12, 32e9, 32e9}},
    {"L4", "", {"NVIDIA L4", 121e12, 242e12, 60e12, 30.3e12, 0.3e12, 32e9, 32e9}},
    {"L40S", "", {"NVIDIA L40S", 362e12, 733e12, 183e12, 91.6e12, 0.864e12, 32e9, 32e9}},
    {"A5000", "", {"NVIDIA RTX A5000", 111.1e12, 0, 55.6e12, 27.8e12, 0.768e12, 32e9, 32e9}},
    {"6000",
     "Ada",
     {"NVIDIA RTX 6000 Ada Generation", 364.2e12, 728.5e12, 182.1e12, 91.1e12, 0.96e12, 32e9,
      32e9}},
    {"6000",
     "PRO",
     {"NVIDIA RTX PRO 6000 Blackwell", 503.8e12, 1007.6e12, 251.9e12, 126e12, 1.792e12, 64e9,
      64e9}},
    // The rate to the host is half the rate of the superchip's CPU link, which two GPUs share.
    {"GB200", "", {"NVIDIA GB200", 2500e12, 5000e12, 1250e12, 80e12, 8e12, 225e9, 900e9}},
    {"3060", "", {"NVIDIA GeForce RTX 3060", 25.5e12, 0, 12.7e12, 12.7e12, 0.36e12, 32e9, 32e9}},
    {"3080", "", {"NVIDIA GeForce RTX 3080", 59.5e12, 0, 29.8e12, 29.8e12, 0.76e12, 32e9, 32e9}},
    {"3090", "", {"NVIDIA GeForce RTX 3090", 71e12, 0, 35.6e12, 35.6e12, 0.936e12, 32e9, 32e9}},
    {"4060",
     "Ti",
     {"NVIDIA GeForce RTX 4060 Ti", 44.1e12, 88.2e12, 22.1e12, 22.1e12, 0.288e12, 16e9, 16e9}},
    {"4070",
     "",
     {"NVIDIA GeForce RTX 4070", 58.3e12, 116.6e12, 29.1e12, 29.1e12, 0.504e12, 32e9, 32e9}},
    {"4080",
     "",
     {"NVIDIA GeForce RTX 4080", 97.5e12, 195e12, 48.7e12, 48.7e12, 0.717e12, 32e9, 32e9}},
    {"4090",
     "",
     {"NVIDIA GeForce RTX 4090", 165e12, 330e12, 82.6e12, 82.6e12, 1.008e12, 32e9, 32e9}},
    {"5080",
     "",
     {"NVIDIA GeForce RTX 5080", 112.6e12, 225.1e12, 56.3e12, 56.3e12, 0.96e12, 64e9, 64e9}},
    {"5090",
     "",
     {"NVIDIA GeForce RTX 5090", 209.5e12, 419e12, 104.8e12, 104.8e12, 1.792e12, 64e9, 64e9}},
};

// Words that make a name the name of another card: an RTX 4070 Ti is not an RTX 4070.
constexpr std::string_view kOtherCards[] = {"Ti", "SUPER", "Laptop", "Max"};

// Splits a name at characters that are neither letters nor digits; "40 GB" becomes one word.
std::vector<std::string> Words(std::string_view name) {
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

const PeakRates* FindPeakRates(std::string_view name) {
  const std::vector<std::string> words = Words(name);
  const auto has = [&](std::string_view word) {
    return word.empty() || std::find(words.begin(), words.end(), word) != words.end();
  };
  const auto found = std::ranges::find_if(kKnown, [&](const Known& known) {
    return has(known.model) && has(known.variant) &&
           std::ranges::none_of(kOtherCards, [&](std::string_view word) {
             return word != known.variant && has(word);
           });
  });
  return found == std::end(kKnown) ? nullptr : &found->rates;
}

}  // namespace plimsoll::gpu
