// How fast GPUs multiply dense matrices, as their maker's data sheets state it. For the share of
// the peak that a run reaches (MFU); measured rates are lower.
#pragma once

#include <string_view>

namespace plimsoll::gpu {

// Floating-point operations a second, without sparsity; 0: not known.
struct PeakRates {
  double half = 0;  // bf16 and fp16, summed in float32
  double tf32 = 0;
  double fp32 = 0;
};

// `name` as the driver gives it: "NVIDIA H200".
PeakRates PeakRatesOf(std::string_view name);

}  // namespace plimsoll::gpu
