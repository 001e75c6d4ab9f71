// GPUs that people name without having one here: what a configuration for them has to know.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace plimsoll::trainer {

struct KnownGpu {
  const char* key;     // on the command line: "h200"
  const char* name;    // "NVIDIA H200"
  int major, minor;    // compute capability
  int64_t memory_gib;  // as sold

  int64_t memory_bytes() const { return memory_gib << 30; }
};

std::span<const KnownGpu> KnownGpus();

// What --device takes: "cpu, v100, …".
std::string DeviceNames();

// UserError, with the nearest or all names, when there is none of that name.
const KnownGpu& RequireGpu(const std::string& key);

}  // namespace plimsoll::trainer
