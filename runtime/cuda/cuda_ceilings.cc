#include "gpu/measure_ceilings.h"
#include "runtime/cuda/ceilings.h"

namespace plimsoll::runtime {

Ceilings MeasureCeilings(DeviceKind device) {
  if (device != DeviceKind::kCuda) return {};
  gpu::Libraries libraries;
  const gpu::Ceilings measured = gpu::MeasureCeilings(libraries);
  return {measured.copy_bytes, measured.bf16_flops, measured.tf32_flops, measured.fp32_flops};
}

}  // namespace plimsoll::runtime
