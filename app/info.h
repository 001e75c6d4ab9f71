// `plimsoll info`: this build, this machine, its GPUs, and problems with them.
#pragma once

#include <string>

#include "runtime/cuda/gpu_report.h"

namespace plimsoll::trainer {

// The machine apart from its GPUs.
struct HostFacts {
  std::string processor;
  int cores = 0;  // that this process may use
  int64_t total_bytes = 0;
  int64_t available_bytes = 0;
};

// Problems are part of the answer, not errors. As several lines for people; as one JSON object for
// programs.
std::string InfoText(const HostFacts& host, const runtime::GpuReport& gpus);
std::string InfoJson(const HostFacts& host, const runtime::GpuReport& gpus);

}  // namespace plimsoll::trainer
