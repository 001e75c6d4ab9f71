// The device and the budget that a run file is for.
#pragma once

#include <string>

#include "runtime/cuda/gpu_report.h"
#include "trainer/propose/choices.h"

namespace plimsoll::trainer {

struct Target {
  std::string name;      // "NVIDIA H200", "CPU"
  std::string key = {};  // of trainer/settle/known_gpus.h; empty: this machine's device
  bool gpu = false;
  int major = 0, minor = 0;  // compute capability
  std::string budget;        // where none is named: 90 % of the GPU's memory, 80 % of the machine's
  std::string budget_why;
  std::string code = {};  // what this build can do with it
};

// `device`: "h200", "cpu"; empty: what is here, the first of `gpus` if there is one. UserError for
// one that is unknown.
Target TargetOf(const std::string& device, const runtime::GpuReport& gpus);

// device, memory.device, memory.budget (`budget` as somebody asks for it; empty: the target's) and
// amp.dtype.
void ChooseDevice(const Target& target, const std::string& budget, Choices& choices);

}  // namespace plimsoll::trainer
