// What CUDA reports about this machine and this build: versions, and the GPUs that this process may
// use. Makes no context on any GPU. Builds without CUDA report nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/compute_capability.h"

namespace plimsoll::gpu {

// A library's versions: the version found at run time, empty if the library is missing, and the
// version of the headers, empty if the build doesn't use the library.
struct LibraryVersion {
  std::string name;
  std::string found;
  std::string built_with;
};

struct VisibleGpu {
  std::string name;
  std::string pci_bus_id;
  ComputeCapability capability;
  int multiprocessors = 0;
  int64_t total_bytes = 0;
};

struct Installation {
  bool cuda = false;             // whether built with --config=cuda
  std::string architectures;     // architectures for which this build has code: "80,90"
  int runtime_version = 0;       // version of CUDA's runtime, which is linked in: 13000 is 13.0
  int driver_version = 0;        // newest CUDA version that the driver supports; 0: no driver
  std::string problem;           // why CUDA sees no GPU; empty if it sees one
  std::vector<VisibleGpu> gpus;  // in CUDA's order
  std::vector<LibraryVersion> libraries;
};

Installation FindInstallation();

// Installation::architectures alone; empty in builds without CUDA.
const char* BuiltArchitectures();

// The bus id of the GPU that CUDA would use first: "0000:1B:00.0". Empty if there is no such GPU.
std::string FirstBusId();

}  // namespace plimsoll::gpu
