// What GPUs do at best, as their maker's data sheets state it: for the share of the peak that a run
// reaches (MFU), and to scale rates that were measured on one of them. Measured rates are lower.
#pragma once

#include <string_view>

namespace plimsoll::gpu {

// Of a card, per second.
struct PeakRates {
  const char* name = "";  // "NVIDIA A100 80 GB"
  // Floating-point operations, without sparsity. Without TF32, its rate is that of float32.
  double half = 0;  // bf16 and fp16 on the matrix units, summed in float32
  double tf32 = 0;
  double fp32 = 0;
  double memory = 0;  // bytes of its own memory
  double link = 0;    // bytes to the host, each way
};

// By the model in a name as the driver gives it ("NVIDIA A100-SXM4-80GB") or as the table has it;
// nullptr: not known.
const PeakRates* FindPeakRates(std::string_view name);

}  // namespace plimsoll::gpu
