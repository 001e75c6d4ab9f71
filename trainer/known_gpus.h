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
};

std::span<const KnownGpu> KnownGpus();

// UserError, with the nearest or all names, when there is none.
const KnownGpu& RequireGpu(const std::string& key);

}  // namespace plimsoll::trainer
