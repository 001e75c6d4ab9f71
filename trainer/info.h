// `plimsoll info`: this build, this machine, its GPUs, and what is wrong.
#pragma once

#include <string>

#include "runtime/gpu_report.h"

namespace plimsoll::trainer {

// The machine beside its GPUs.
struct HostFacts {
  std::string processor;
  int cores = 0;  // that this process may use
  int64_t total_bytes = 0;
  int64_t available_bytes = 0;
};

// For people, several lines; for programs, one JSON object.
std::string InfoText(const HostFacts& host, const runtime::GpuReport& gpus);
std::string InfoJson(const HostFacts& host, const runtime::GpuReport& gpus);

// Looks and prints. What is wrong is part of the answer and no error.
void RunInfo(bool json);

}  // namespace plimsoll::trainer
