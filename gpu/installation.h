// What CUDA reports about this machine and this build: versions, and the GPUs that this process may
// use. Makes no context on any GPU. In builds without CUDA there is nothing to report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::gpu {

// A library's versions: the one found at run time, empty if there is none, and the one of the
// headers, empty if the build doesn't use it.
struct LibraryVersion {
  std::string name;
  std::string found;
  std::string built_with;
};

struct VisibleGpu {
  std::string name;
  std::string pci_bus_id;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t total_bytes = 0;
};

struct Installation {
  bool cuda = false;             // whether built with --config=cuda
  std::string architectures;     // for which this build has code: "80,90"
  int runtime_version = 0;       // of CUDA, which is linked in: 13000 is 13.0
  int driver_version = 0;        // the newest CUDA that the driver runs; 0: no driver
  std::string problem;           // why CUDA sees no GPU; empty when it does
  std::vector<VisibleGpu> gpus;  // in CUDA's order
  std::vector<LibraryVersion> libraries;
};

Installation FindInstallation();

// The bus id of the GPU that CUDA would use first: "0000:1B:00.0". Empty when there is none.
std::string FirstBusId();

}  // namespace plimsoll::gpu
