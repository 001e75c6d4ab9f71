// `plimsoll info` describes this build, this machine, its GPUs, and problems with them.
#pragma once

#include <string>

#include "runtime/cuda/gpu_report.h"

namespace plimsoll::trainer {

// Facts about the machine except its GPUs.
struct HostFacts {
  std::string processor;
  int cores = 0;  // cores that this process may use
  int64_t total_bytes = 0;
  int64_t available_bytes = 0;
};

// Text for people and JSON for programs. Problems are part of the answer, not errors.
std::string InfoText(const HostFacts& host, const runtime::GpuReport& gpus);
std::string InfoJson(const HostFacts& host, const runtime::GpuReport& gpus);

}  // namespace plimsoll::trainer
