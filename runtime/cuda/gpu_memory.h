// Memory of a GPU as its driver counts it: of the whole card, of this process, and of others. Part
// of every build, with or without CUDA; makes no context. All figures are in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::runtime {

// Another process on the GPU.
struct GpuHolder {
  int64_t pid = 0;
  std::optional<int64_t> bytes;  // nullopt when the driver doesn't tell
  std::string name;              // empty when unknown
};

struct GpuMemory {
  std::string gpu;    // "NVIDIA H200"
  int64_t total = 0;  // available to programs: without the driver's and firmware's reserve
  int64_t free = 0;
  std::vector<GpuHolder> others;

  // "process 4711 (python) holds 20.0 GiB"; empty when no other process is known.
  std::string DescribeOthers() const;
};

// Reads the counters of the GPU that this process would use: the first one that CUDA shows, or, in
// a build without CUDA, the first one of the machine.
class GpuMeter {
 public:
  // nullopt when there is no driver, or no GPU.
  static std::optional<GpuMeter> Find();

  GpuMemory Measure() const;

  // What this process holds: context, code, libraries and its own allocations, in the driver's
  // pages of 2 MiB.
  struct Process {
    int64_t bytes = 0;
    // Whether the driver counts for this process alone. In some containers it can't; the figure is
    // then the growth of the card's use, by any process, since this process's first meter.
    bool by_driver = false;
  };
  Process MeasureProcess() const;

  std::optional<int> ClockMhz() const;  // of the multiprocessors, now; nothing where it isn't told
  std::string DriverVersion() const;    // "580.95.05"
  // Energy used by the whole board since the driver was loaded; nullopt where it isn't counted.
  std::optional<double> Joules() const;
  bool mig() const;  // cut into instances

 private:
  GpuMeter(void* device, int64_t used) : device_(device), used_before_(used) {}

  void* device_;
  int64_t used_before_;
};

}  // namespace plimsoll::runtime
