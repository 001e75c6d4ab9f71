// Information of the driver about the machine's GPUs: NVML, NVIDIA's management library, which
// nvidia-smi uses too. It comes with the driver, so it is looked up at run time and works in every
// build, with or without CUDA. Nothing here makes a CUDA context or takes GPU memory. Sizes are in
// bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::gpu {

struct NvmlMemory {
  int64_t total = 0;
  int64_t free = 0;
  int64_t used = 0;      // by all processes
  int64_t reserved = 0;  // by driver and firmware, in neither of the two above
};

struct NvmlProcess {
  int64_t pid = 0;
  std::optional<int64_t> bytes;  // nullopt if the driver doesn't tell, as in some containers
  std::string name;              // empty when unknown
};

// The kinds of links between two GPUs, the shortest first.
enum class NvmlLink {
  kNvLink,
  kSameBoard,
  kSwitch,
  kHostBridge,
  kSameNode,
  kAcrossNodes,
  kUnknown
};

// "NVLink", "PCIe switch", …
const char* Name(NvmlLink link);

// One GPU.
class NvmlDevice {
 public:
  explicit NvmlDevice(void* handle) : handle_(handle) {}

  std::string name() const;
  std::string pci_bus_id() const;                      // "00000000:1B:00.0"
  std::pair<int, int> compute_capability() const;      // {9, 0}; {0, 0} when unknown
  NvmlMemory memory() const;                           // a call takes some ten microseconds
  std::vector<NvmlProcess> processes() const;          // with a CUDA context here
  std::optional<int64_t> bytes_of(int64_t pid) const;  // nullopt if it isn't listed or not told
  NvmlLink LinkTo(const NvmlDevice& other) const;
  std::optional<int> clock_mhz() const;  // of its multiprocessors, now
  // Energy used by the whole board since the driver was loaded, in joules; nullopt where it isn't
  // counted (before Volta).
  std::optional<double> joules() const;
  bool mig() const;         // cut into instances
  bool prohibited() const;  // compute mode that admits no CUDA program
  void* handle() const { return handle_; }

 private:
  void* handle_;
};

class Nvml {
 public:
  // nullptr when there is no driver on this machine, or it doesn't answer; problem() then says why.
  static const Nvml* Get();
  static const std::string& problem();

  const std::string& driver_version() const { return driver_version_; }  // "580.95.05"
  int cuda_version() const { return cuda_version_; }  // the newest that the driver runs: 13000
  const std::vector<NvmlDevice>& devices() const { return devices_; }
  // Finds a GPU by the bus id in CUDA's spelling or NVML's; nullopt if it isn't there.
  std::optional<NvmlDevice> Find(const std::string& pci_bus_id) const;

 private:
  friend struct NvmlLoader;
  std::string driver_version_;
  int cuda_version_ = 0;
  std::vector<NvmlDevice> devices_;
};

}  // namespace plimsoll::gpu
