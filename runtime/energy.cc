#include "runtime/energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "runtime/cuda/gpu_memory.h"

namespace plimsoll::runtime {
namespace {

class GpuEnergy final : public EnergyCounter {
 public:
  explicit GpuEnergy(GpuMeter meter) : meter_(std::move(meter)) {}

  std::optional<double> Joules() override { return meter_.Joules(); }

  std::string Counts() const override {
    const std::string others = meter_.Measure().DescribeOthers();
    return fmt::format("the whole GPU, by NVML{}{}", meter_.mig() ? ", all its instances" : "",
                       others.empty() ? "" : "; shared: " + others);
  }

 private:
  GpuMeter meter_;
};

std::optional<double> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  double number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

// The package of a processor: the complete chip. The package's parts (core, uncore) have their own
// zones, whose energy is included in the package's.
struct Package {
  std::string name;    // "package-0"
  std::string energy;  // the file of the package's counter, in microjoules
  double range = 0;    // the counter wraps around at this value
  double last = 0;
};

class Rapl final : public EnergyCounter {
 public:
  explicit Rapl(std::vector<Package> packages) : packages_(std::move(packages)) {}

  std::optional<double> Joules() override {
    for (Package& package : packages_) {
      const std::optional<double> now = ReadNumber(package.energy);
      if (!now) return std::nullopt;
      microjoules_ += *now - package.last + (*now < package.last ? package.range : 0);
      package.last = *now;
    }
    return microjoules_ * 1e-6;
  }

  std::string Counts() const override {
    std::vector<std::string> names;
    for (const Package& package : packages_) names.push_back(package.name);
    return fmt::format("{}, by RAPL, with all that runs there", fmt::join(names, ", "));
  }

 private:
  std::vector<Package> packages_;
  double microjoules_ = 0;
};

}  // namespace

FoundEnergyCounter FindEnergyCounter(DeviceKind kind) {
  if (kind == DeviceKind::kCpu) return FindRapl("/sys/class/powercap");
  std::optional<GpuMeter> meter = GpuMeter::Find();
  if (!meter) return {nullptr, "no NVIDIA driver tells of the GPU"};
  if (!meter->Joules()) return {nullptr, "the driver does not count this GPU's energy"};
  return {std::make_unique<GpuEnergy>(std::move(*meter)), ""};
}

FoundEnergyCounter FindRapl(const std::string& folder) {
  std::vector<Package> packages;
  std::error_code error;
  for (const auto& zone : std::filesystem::directory_iterator(folder, error)) {
    std::string name;
    if (!std::getline(std::ifstream(zone.path() / "name"), name)) continue;
    if (!name.starts_with("package")) continue;
    packages.push_back({.name = name, .energy = (zone.path() / "energy_uj").string()});
    Package& package = packages.back();
    errno = 0;
    const std::optional<double> now = ReadNumber(package.energy);
    if (!now) {
      return {nullptr, fmt::format("{}: cannot be read ({}); root may, and whom root lets",
                                   package.energy, std::strerror(errno != 0 ? errno : EIO))};
    }
    package.last = *now;
    package.range = ReadNumber(zone.path() / "max_energy_range_uj").value_or(0);
  }
  if (packages.empty()) {
    return {nullptr, "this machine shows no energy counters (RAPL) in " + folder};
  }
  std::ranges::sort(packages, {}, &Package::name);
  return {std::make_unique<Rapl>(std::move(packages)), ""};
}

}  // namespace plimsoll::runtime
