// What data sheets say of GPUs, to scale rates that were measured on one of them.
#pragma once

#include <string>

namespace plimsoll::memory {

// Peaks of a card, without sparsity.
struct GpuFigures {
  const char* name;     // "NVIDIA A100 80 GB"
  double matrix16;      // FLOPs a second on the matrix units, of 16-bit numbers
  double matrix_tf32;   // of TF32; those of vector32 where there is none
  double vector32;      // of float32, beside the matrix units
  double memory_bytes;  // a second
  double link_bytes;    // a second to the host, each way

  bool operator==(const GpuFigures&) const = default;
};

// Those of the GPU that the built-in rates were measured on.
const GpuFigures& MeasuredGpu();

// By the model in a name as the driver gives it ("NVIDIA A100-SXM4-80GB") or as it is known here;
// nullptr: not known.
const GpuFigures* FindGpuFigures(const std::string& name);

}  // namespace plimsoll::memory
