#include "gpu/peak_rates.h"

namespace plimsoll::gpu {

PeakRates PeakRatesOf(std::string_view name) {
  struct Known {
    std::string_view part;  // of the name; the first that fits counts
    PeakRates rates;
  };
  static constexpr Known kKnown[] = {
      {"H200 NVL", {835e12, 418e12, 60e12}},
      {"H200", {989e12, 494e12, 67e12}},
      {"H100 PCIe", {756e12, 378e12, 51e12}},
      {"H100 NVL", {835e12, 418e12, 60e12}},
      {"H100", {989e12, 494e12, 67e12}},
      {"A100", {312e12, 156e12, 19.5e12}},
  };
  for (const Known& known : kKnown) {
    if (name.find(known.part) != std::string_view::npos) return known.rates;
  }
  return {};
}

}  // namespace plimsoll::gpu
