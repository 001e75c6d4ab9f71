// What the driver reports about the machine's GPUs through NVML, NVIDIA's management library, which
// nvidia-smi uses, too. The driver includes NVML, so it is looked up at run time and works in every
// build, with or without CUDA. Nothing here makes a CUDA context or takes GPU memory. Sizes are in
// bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/compute_capability.h"

namespace plimsoll::gpu {

struct NvmlMemory {
  int64_t total = 0;
  int64_t free = 0;
  int64_t used = 0;      // by all processes
  int64_t reserved = 0;  // by driver and firmware; neither free nor used
};

struct NvmlProcess {
  int64_t pid = 0;
  std::optional<int64_t> bytes;  // nullopt if the driver doesn't report it, as in some containers
  std::string name;              // empty if unknown
};

// The kinds of links between two GPUs, sorted from the shortest distance to the longest.
enum class NvmlLink {
  kNvLink,
  kSameBoard,
  kSwitch,
  kHostBridge,
  kSameNode,
  kAcrossNodes,
  kUnknown
};

// The link's name: "NVLink", "PCIe switch", …
const char* Name(NvmlLink link);

// One GPU.
class NvmlDevice {
 public:
  explicit NvmlDevice(void* handle) : handle_(handle) {}

  std::string name() const;
  std::string pci_bus_id() const;              // "00000000:1B:00.0"
  ComputeCapability capability() const;        // {0, 0} if unknown
  NvmlMemory memory() const;                   // takes some ten microseconds
  std::vector<NvmlProcess> processes() const;  // processes that have a CUDA context on this GPU
  // The process's memory on this GPU. nullopt if the process isn't listed or its memory unknown.
  std::optional<int64_t> bytes_of(int64_t pid) const;
  NvmlLink LinkTo(const NvmlDevice& other) const;
  std::optional<int> clock_mhz() const;  // current clock of the multiprocessors
  // Energy used by the complete board since the driver was loaded, in joules; nullopt if the board
  // doesn't count it (before Volta).
  std::optional<double> joules() const;
  bool mig() const;         // whether the GPU is partitioned into MIG instances
  bool prohibited() const;  // whether the compute mode admits no CUDA program
  void* handle() const { return handle_; }

 private:
  void* handle_;
};

class Nvml {
 public:
  // Returns nullptr if this machine has no driver, or if the driver doesn't answer; problem() then
  // says why.
  static const Nvml* Get();
  static const std::string& problem();

  const std::string& driver_version() const { return driver_version_; }  // "580.95.05"
  // The newest CUDA version that the driver supports, as 13000 for 13.0.
  int cuda_version() const { return cuda_version_; }
  const std::vector<NvmlDevice>& devices() const { return devices_; }
  // Finds a GPU by its bus id in CUDA's or NVML's form; nullopt if there is no such GPU.
  std::optional<NvmlDevice> Find(const std::string& pci_bus_id) const;

 private:
  friend struct NvmlLoader;
  std::string driver_version_;
  int cuda_version_ = 0;
  std::vector<NvmlDevice> devices_;
};

}  // namespace plimsoll::gpu
