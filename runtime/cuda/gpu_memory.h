// Memory of a GPU as its driver counts it: of the complete card, of this process, and of other
// processes. Included in every build, with or without CUDA; makes no context. All sizes are in
// bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/compute_capability.h"

namespace plimsoll::runtime {

// Another process that holds memory of the GPU.
struct GpuHolder {
  int64_t pid = 0;
  std::optional<int64_t> bytes;  // nullopt if the driver doesn't report it
  std::string name;              // empty if unknown
};

struct GpuMemory {
  std::string gpu;    // "NVIDIA H200"
  int64_t total = 0;  // memory for programs, without the reserve of driver and firmware
  int64_t free = 0;
  std::vector<GpuHolder> others;

  // A text like "process 4711 (python) holds 20.0 GiB"; empty if no other process is known.
  std::string DescribeOthers() const;
};

// Reads the counters of the GPU that this process would use: the first GPU that CUDA shows or, in a
// build without CUDA, the first GPU of the machine.
class GpuMeter {
 public:
  // Returns nullopt if there is no driver or no GPU.
  static std::optional<GpuMeter> Find();

  ComputeCapability Capability() const;
  GpuMemory Measure() const;

  // The memory that this process holds: context, code, libraries and its own allocations, in the
  // driver's pages of 2 MiB.
  struct Process {
    int64_t bytes = 0;
    // Whether the driver counts this process separately. In some containers it can't; `bytes` is
    // then the growth of the card's use, by any process, since this process's first meter.
    bool by_driver = false;
  };
  Process MeasureProcess() const;

  // Current clock of the multiprocessors; nullopt if not reported.
  std::optional<int> ClockMhz() const;
  std::string DriverVersion() const;  // "580.95.05"
  // Energy used by the complete board since the driver was loaded; nullopt if the board doesn't
  // count it.
  std::optional<double> Joules() const;
  bool mig() const;  // whether the GPU is partitioned into MIG instances

 private:
  GpuMeter(void* device, int64_t used) : device_(device), used_before_(used) {}

  void* device_;
  int64_t used_before_;
};

// The GPU's name, followed by the capability by which its kernels are chosen if that is another:
// "NVIDIA H200 as 8.6". Such kernels have times of their own.
std::string NameByKernels(const std::string& gpu, ComputeCapability own, ComputeCapability chosen);

// What kernels are chosen by on the GPU that this process would use (gpu::KernelCapability). If
// `wanted` is nullopt, it is the GPU's own capability; the default if there is no GPU.
ComputeCapability PresentCapability(std::optional<ComputeCapability> wanted = ActedCapability());

}  // namespace plimsoll::runtime
