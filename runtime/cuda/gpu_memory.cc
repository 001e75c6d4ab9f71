#include "runtime/cuda/gpu_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/bytes.h"
#include "gpu/architectures.h"
#include "gpu/installation.h"
#include "gpu/nvml.h"

namespace plimsoll::runtime {

std::string GpuMemory::DescribeOthers() const {
  std::vector<std::string> parts;
  for (const GpuHolder& other : others) {
    const std::string name = std::filesystem::path(other.name).filename().string();
    parts.push_back(fmt::format("process {}{} holds {}", other.pid,
                                name.empty() ? "" : " (" + name + ")",
                                other.bytes ? FormatBytes(*other.bytes) : "an unknown amount"));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::optional<GpuMeter> GpuMeter::Find() {
  const gpu::Nvml* nvml = gpu::Nvml::Get();
  if (nvml == nullptr || nvml->devices().empty()) return std::nullopt;
  const std::string first = gpu::FirstBusId();
  const gpu::NvmlDevice device =
      (first.empty() ? std::nullopt : nvml->Find(first)).value_or(nvml->devices().front());
  static std::mutex mutex;
  // Bytes used on each GPU when this process made its first meter, by device.
  static std::map<void*, int64_t> used_before;
  const std::lock_guard lock(mutex);
  const auto known = used_before.try_emplace(device.handle(), 0);
  if (known.second) known.first->second = device.memory().used;
  return GpuMeter(device.handle(), known.first->second);
}

ComputeCapability GpuMeter::Capability() const { return gpu::NvmlDevice(device_).capability(); }

GpuMemory GpuMeter::Measure() const {
  const gpu::NvmlDevice device(device_);
  const gpu::NvmlMemory memory = device.memory();
  GpuMemory result;
  result.gpu = device.name();
  result.total = memory.free + memory.used;
  result.free = memory.free;
  for (const gpu::NvmlProcess& process : device.processes()) {
    if (process.pid != getpid()) {
      result.others.push_back({process.pid, process.bytes, process.name});
    }
  }
  return result;
}

GpuMeter::Process GpuMeter::MeasureProcess() const {
  const gpu::NvmlDevice device(device_);
  if (const std::optional<int64_t> bytes = device.bytes_of(getpid())) return {*bytes, true};
  return {std::max<int64_t>(0, device.memory().used - used_before_), false};
}

std::optional<int> GpuMeter::ClockMhz() const { return gpu::NvmlDevice(device_).clock_mhz(); }

std::string GpuMeter::DriverVersion() const { return gpu::Nvml::Get()->driver_version(); }

std::optional<double> GpuMeter::Joules() const { return gpu::NvmlDevice(device_).joules(); }

bool GpuMeter::mig() const { return gpu::NvmlDevice(device_).mig(); }

std::string NameByKernels(const std::string& gpu, ComputeCapability own, ComputeCapability chosen) {
  return chosen == own ? gpu : fmt::format("{} as {}", gpu, chosen.text());
}

ComputeCapability PresentCapability(std::optional<ComputeCapability> wanted) {
  const std::optional<GpuMeter> meter = GpuMeter::Find();
  if (!meter) return wanted.value_or(ComputeCapability());
  const ComputeCapability gpu = meter->Capability();
  return gpu::KernelCapability(gpu::BuiltArchitectures(), gpu, wanted.value_or(gpu));
}

}  // namespace plimsoll::runtime
