// The GPUs of this machine, whether this build can use them, and their problems, for `plimsoll
// info` and for messages. Included in every build; works on machines without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/compute_capability.h"
#include "runtime/cuda/gpu_memory.h"

namespace plimsoll::runtime {

struct GpuFacts {
  std::string name;
  std::string pci_bus_id;
  ComputeCapability capability;
  int multiprocessors = 0;  // 0: unknown
  int64_t total_bytes = 0;  // available to programs
  int64_t free_bytes = 0;
  std::vector<GpuHolder> holders;
  // Whether this process sees the GPU (CUDA_VISIBLE_DEVICES); needs a CUDA build.
  bool visible = false;
  bool has_code = false;           // whether this build has code for the GPU
  bool mig = false;                // whether the GPU is partitioned into MIG instances
  bool prohibited = false;         // whether the GPU's compute mode admits no process
  std::vector<std::string> links;  // the link to each GPU; empty for the GPU itself
};

struct GpuLibrary {
  std::string name, found, built_with;  // versions: "9.19.0"
};

struct GpuReport {
  bool cuda_build = false;
  std::string architectures;    // GPU architectures for which the build has code
  int cuda_version = 0;         // CUDA version of the build; 13000 is 13.0
  std::string driver_version;   // "580.95.05"; empty if there is no driver
  int driver_cuda_version = 0;  // the newest CUDA version that the driver supports
  std::string driver_problem;   // why there is no driver, or why it doesn't answer
  std::string cuda_problem;     // CUDA's own message on why it sees no GPU
  std::string visible_devices;  // CUDA_VISIBLE_DEVICES, if set
  bool visible_devices_set = false;
  std::vector<GpuLibrary> libraries;
  std::vector<GpuFacts> gpus;  // all GPUs of the machine, visible or not
};

GpuReport InspectGpus();

// Whether the build has code for GPUs of this compute capability.
bool HasCodeFor(const GpuReport& report, ComputeCapability gpu);

// A problem that keeps, or may keep, this build from using the machine's GPUs: one line that says
// what to do about it.
struct GpuProblem {
  std::string text;
  bool stops = false;  // whether the problem prevents device: cuda
};
std::vector<GpuProblem> FindProblems(const GpuReport& report);

// "13.0" for 13000.
std::string CudaVersionText(int version);

}  // namespace plimsoll::runtime
