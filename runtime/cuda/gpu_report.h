// The GPUs of this machine, what this build can do with them, and what is wrong: for `plimsoll
// info` and for messages. Part of every build; works on machines without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/gpu_memory.h"

namespace plimsoll::runtime {

struct GpuFacts {
  std::string name;
  std::string pci_bus_id;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;   // 0: not known
  int64_t total_bytes = 0;   // available to programs
  int64_t free_bytes = 0;
  std::vector<GpuHolder> holders;
  bool visible = false;            // to this process, by CUDA_VISIBLE_DEVICES; needs a CUDA build
  bool has_code = false;           // this build runs on it
  bool mig = false;                // cut into instances
  bool prohibited = false;         // its compute mode admits no process
  std::vector<std::string> links;  // to each GPU, itself included (empty there)
};

struct GpuLibrary {
  std::string name, found, built_with;  // versions: "9.19.0"
};

struct GpuReport {
  bool cuda_build = false;
  std::string architectures;    // for which the build has code
  int cuda_version = 0;         // of the build: 13000 is 13.0
  std::string driver_version;   // "580.95.05"; empty: no driver
  int driver_cuda_version = 0;  // the newest CUDA that the driver runs
  std::string driver_problem;   // why there is no driver, or why it doesn't answer
  std::string cuda_problem;     // why CUDA sees no GPU, in its own words
  std::string visible_devices;  // CUDA_VISIBLE_DEVICES, when set
  bool visible_devices_set = false;
  std::vector<GpuLibrary> libraries;
  std::vector<GpuFacts> gpus;  // of the machine, visible or not
};

GpuReport InspectGpus();

// Whether the build runs on GPUs of that compute capability.
bool HasCodeFor(const GpuReport& report, int major, int minor);

// A problem that keeps, or may keep, this build from using the machine's GPUs: one line with what
// to do about it.
struct GpuProblem {
  std::string text;
  bool stops = false;  // device: cuda can't run
};
std::vector<GpuProblem> FindProblems(const GpuReport& report);

// "13.0" of 13000.
std::string CudaVersionText(int version);

}  // namespace plimsoll::runtime
