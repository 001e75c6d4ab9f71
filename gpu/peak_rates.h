// Peak rates of GPUs from their maker's data sheets. They give the share of the peak that a run
// reaches (MFU), and scale rates that were measured on one of these GPUs. Measured rates are lower.
#pragma once

#include <string_view>

namespace plimsoll::gpu {

// The rates of a card, per second.
struct PeakRates {
  const char* name = "";  // "NVIDIA A100 80 GB"
  // FLOPs without sparsity. For a GPU without TF32, `tf32` is the rate of float32.
  double half = 0;  // bf16 and fp16 on the matrix units, summed in float32
  double fp8 = 0;   // e4m3 and e5m2, summed in float32; 0: the matrix units don't multiply them
  double tf32 = 0;
  double fp32 = 0;
  double memory = 0;  // bytes of the card's own memory
  double link = 0;    // bytes to the host, each way
  double peers = 0;   // bytes to other cards of the host, each way: over NVLink if the card has it
};

// Finds a model by a name as the driver gives it ("NVIDIA A100-SXM4-80GB") or as in the table;
// nullptr if the model is unknown.
const PeakRates* FindPeakRates(std::string_view name);

}  // namespace plimsoll::gpu
