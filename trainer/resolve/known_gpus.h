// GPUs that users can name without owning one, with the facts that a configuration needs.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/compute_capability.h"

namespace plimsoll::trainer {

struct KnownGpu {
  const char* key;   // the name on the command line: "h200"
  const char* name;  // "NVIDIA H200"
  ComputeCapability capability;
  int64_t sold_gb;     // gigabytes of memory that the maker states
  int64_t memory_mib;  // memory that the driver reports; less if error correction takes some of it

  int64_t memory_bytes() const { return memory_mib << 20; }
};

std::span<const KnownGpu> KnownGpus();

// The values that --device takes: "cpu, t4, …".
std::string DeviceNames();

// Finds the GPU by its key, by its maker's name, or by either with its memory: "RTX 4090",
// "a100-80gb". `key` is the value of `option`. If no GPU has that name, a UserError says that
// no build runs there, or suggests the nearest name, and lists all names.
const KnownGpu& RequireGpu(const std::string& key, const std::string& option = "--device");

}  // namespace plimsoll::trainer
