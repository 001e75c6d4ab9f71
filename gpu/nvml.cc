#include "gpu/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace plimsoll::gpu {
namespace {

// The part of NVML's interface that is used here, as the driver's library exports it.
constexpr int kSuccess = 0, kInsufficientSize = 7;
constexpr uint64_t kNotAvailable = ~uint64_t{0};

struct MemoryV1 {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};
struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, id, subsystem_id;
  char bus_id[32];
};

struct Functions {
  int (*init)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*cuda_version)(int*) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, void**) = nullptr;
  int (*name)(void*, char*, unsigned) = nullptr;
  int (*pci)(void*, PciInfo*) = nullptr;
  int (*capability)(void*, int*, int*) = nullptr;
  int (*memory)(void*, MemoryV1*) = nullptr;
  int (*memory_v2)(void*, MemoryV2*) = nullptr;
  int (*processes)(void*, unsigned*, ProcessInfo*) = nullptr;
  int (*process_name)(unsigned, char*, unsigned) = nullptr;
  int (*ancestor)(void*, void*, int*) = nullptr;
  int (*p2p)(void*, void*, int, int*) = nullptr;
  int (*mig)(void*, unsigned*, unsigned*) = nullptr;
  int (*compute_mode)(void*, int*) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*energy)(void*, unsigned long long*) = nullptr;
};

Functions& F() {
  static Functions functions;
  return functions;
}

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::string LowerBusId(const std::string& id) {
  // Converts CUDA's form "0000:1B:00.0" to NVML's form "00000000:1B:00.0".
  const size_t colon = id.find(':');
  std::string tail = colon == id.npos ? id : id.substr(colon);
  std::string domain = colon == id.npos ? "" : id.substr(0, colon);
  domain.erase(0, std::min(domain.find_first_not_of('0'), domain.size()));
  std::string result = domain + tail;
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string& Problem() {
  static std::string problem;
  return problem;
}

}  // namespace

// Opens the library once. It is never closed: other threads may be calling it when the process
// ends.
struct NvmlLoader {
  static const Nvml* Load() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      Problem() = "there is no NVIDIA driver on this machine (libnvidia-ml.so.1 is missing)";
      return nullptr;
    }
    Functions& f = F();
    const bool complete = Find(library, "nvmlInit_v2", f.init) &&
                          Find(library, "nvmlErrorString", f.error_string) &&
                          Find(library, "nvmlSystemGetDriverVersion", f.driver_version) &&
                          Find(library, "nvmlSystemGetCudaDriverVersion_v2", f.cuda_version) &&
                          Find(library, "nvmlDeviceGetCount_v2", f.count) &&
                          Find(library, "nvmlDeviceGetHandleByIndex_v2", f.by_index) &&
                          Find(library, "nvmlDeviceGetName", f.name) &&
                          Find(library, "nvmlDeviceGetPciInfo_v3", f.pci) &&
                          Find(library, "nvmlDeviceGetCudaComputeCapability", f.capability) &&
                          Find(library, "nvmlDeviceGetMemoryInfo", f.memory);
    if (!complete) {
      Problem() = "the NVIDIA driver is too old to be asked (libnvidia-ml.so.1 lacks functions)";
      return nullptr;
    }
    // The other functions are used only if the library has them.
    Find(library, "nvmlDeviceGetMemoryInfo_v2", f.memory_v2);
    Find(library, "nvmlDeviceGetComputeRunningProcesses_v3", f.processes);
    Find(library, "nvmlSystemGetProcessName", f.process_name);
    Find(library, "nvmlDeviceGetTopologyCommonAncestor", f.ancestor);
    Find(library, "nvmlDeviceGetP2PStatus", f.p2p);
    Find(library, "nvmlDeviceGetMigMode", f.mig);
    Find(library, "nvmlDeviceGetComputeMode", f.compute_mode);
    Find(library, "nvmlDeviceGetClockInfo", f.clock);
    Find(library, "nvmlDeviceGetTotalEnergyConsumption", f.energy);

    if (const int status = f.init(); status != kSuccess) {
      Problem() = std::string("the NVIDIA driver does not answer: ") + f.error_string(status);
      return nullptr;
    }
    static Nvml nvml;
    char text[96] = "";
    if (f.driver_version(text, sizeof(text)) == kSuccess) nvml.driver_version_ = text;
    f.cuda_version(&nvml.cuda_version_);
    unsigned count = 0;
    f.count(&count);
    for (unsigned i = 0; i < count; ++i) {
      void* handle = nullptr;
      if (f.by_index(i, &handle) == kSuccess) nvml.devices_.emplace_back(handle);
    }
    return &nvml;
  }
};

const Nvml* Nvml::Get() {
  static const Nvml* const nvml = NvmlLoader::Load();
  return nvml;
}

const std::string& Nvml::problem() {
  Get();
  return Problem();
}

std::optional<NvmlDevice> Nvml::Find(const std::string& pci_bus_id) const {
  const std::string wanted = LowerBusId(pci_bus_id);
  for (const NvmlDevice& device : devices_) {
    if (LowerBusId(device.pci_bus_id()) == wanted) return device;
  }
  return std::nullopt;
}

std::string NvmlDevice::name() const {
  char text[96] = "";
  return F().name(handle_, text, sizeof(text)) == kSuccess ? text : "unknown GPU";
}

std::string NvmlDevice::pci_bus_id() const {
  PciInfo info = {};
  return F().pci(handle_, &info) == kSuccess ? info.bus_id : "";
}

ComputeCapability NvmlDevice::capability() const {
  ComputeCapability capability{0, 0};
  F().capability(handle_, &capability.major, &capability.minor);
  return capability;
}

NvmlMemory NvmlDevice::memory() const {
  NvmlMemory memory;
  if (F().memory_v2 != nullptr) {
    MemoryV2 info = {};
    info.version = static_cast<unsigned>(sizeof(MemoryV2)) | 2u << 24;
    if (F().memory_v2(handle_, &info) == kSuccess) {
      memory.total = static_cast<int64_t>(info.total);
      memory.free = static_cast<int64_t>(info.free);
      memory.used = static_cast<int64_t>(info.used);
      memory.reserved = static_cast<int64_t>(info.reserved);
      return memory;
    }
  }
  MemoryV1 info = {};
  if (F().memory(handle_, &info) == kSuccess) {
    memory.total = static_cast<int64_t>(info.total);
    memory.free = static_cast<int64_t>(info.free);
    memory.used = static_cast<int64_t>(info.used);
  }
  return memory;
}

std::vector<NvmlProcess> NvmlDevice::processes() const {
  std::vector<NvmlProcess> result;
  if (F().processes == nullptr) return result;
  std::vector<ProcessInfo> infos(16);
  unsigned count = static_cast<unsigned>(infos.size());
  int status = F().processes(handle_, &count, infos.data());
  while (status == kInsufficientSize) {  // repeats: other processes may start meanwhile
    infos.resize(count + 16);
    count = static_cast<unsigned>(infos.size());
    status = F().processes(handle_, &count, infos.data());
  }
  if (status != kSuccess) return result;
  for (unsigned i = 0; i < count; ++i) {
    NvmlProcess& process = result.emplace_back();
    process.pid = infos[i].pid;
    if (infos[i].bytes != kNotAvailable) process.bytes = static_cast<int64_t>(infos[i].bytes);
    char text[256] = "";
    if (F().process_name != nullptr &&
        F().process_name(infos[i].pid, text, sizeof(text)) == kSuccess) {
      process.name = text;
    }
  }
  return result;
}

std::optional<int64_t> NvmlDevice::bytes_of(int64_t pid) const {
  for (const NvmlProcess& process : processes()) {
    if (process.pid == pid) return process.bytes;
  }
  return std::nullopt;
}

NvmlLink NvmlDevice::LinkTo(const NvmlDevice& other) const {
  constexpr int kNvLinkCapability = 2, kOk = 0;
  int status = -1;
  if (F().p2p != nullptr &&
      F().p2p(handle_, other.handle_, kNvLinkCapability, &status) == kSuccess && status == kOk) {
    return NvmlLink::kNvLink;
  }
  int level = 0;
  if (F().ancestor == nullptr || F().ancestor(handle_, other.handle_, &level) != kSuccess) {
    return NvmlLink::kUnknown;
  }
  if (level < 10) return NvmlLink::kSameBoard;
  if (level < 30) return NvmlLink::kSwitch;
  if (level < 40) return NvmlLink::kHostBridge;
  return level < 50 ? NvmlLink::kSameNode : NvmlLink::kAcrossNodes;
}

std::optional<int> NvmlDevice::clock_mhz() const {
  constexpr int kMultiprocessors = 1;
  unsigned mhz = 0;
  if (F().clock == nullptr || F().clock(handle_, kMultiprocessors, &mhz) != kSuccess) {
    return std::nullopt;
  }
  return static_cast<int>(mhz);
}

std::optional<double> NvmlDevice::joules() const {
  unsigned long long millijoules = 0;
  if (F().energy == nullptr || F().energy(handle_, &millijoules) != kSuccess) return std::nullopt;
  return static_cast<double>(millijoules) * 1e-3;
}

bool NvmlDevice::mig() const {
  unsigned current = 0, pending = 0;
  return F().mig != nullptr && F().mig(handle_, &current, &pending) == kSuccess && current == 1;
}

bool NvmlDevice::prohibited() const {
  constexpr int kProhibited = 2;
  int mode = 0;
  return F().compute_mode != nullptr && F().compute_mode(handle_, &mode) == kSuccess &&
         mode == kProhibited;
}

const char* Name(NvmlLink link) {
  switch (link) {
    case NvmlLink::kNvLink:
      return "NVLink";
    case NvmlLink::kSameBoard:
      return "PCIe, same board";
    case NvmlLink::kSwitch:
      return "PCIe switch";
    case NvmlLink::kHostBridge:
      return "PCIe host bridge";
    case NvmlLink::kSameNode:
      return "PCIe, same NUMA node";
    case NvmlLink::kAcrossNodes:
      return "PCIe, across NUMA nodes";
    case NvmlLink::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace plimsoll::gpu
