// What the current device's kernels may use: its compute capability, the build's code for Hopper,
// and shared memory.
#pragma once

#include <cstdint>

#include "base/compute_capability.h"

namespace plimsoll::gpu {

// That of the current device, or what ActAs names, as far as the build's code has its features
// (KernelCapability).
ComputeCapability CurrentCapability();

// Whether kernels of *_hopper.cu run on the current device: it is a Hopper GPU, and this build has
// code for 9.0, so also for 9.0a. Elsewhere these kernels are empty.
bool OnHopper();

// Lets thread blocks of `kernel` have that many bytes of dynamic shared memory. Throws an
// InternalError if the GPU grants less. Call it before each launch with more than 48 KiB.
void AllowSharedMemory(const void* kernel, int64_t bytes);

template <typename... Parameters>
void AllowSharedMemory(void (*kernel)(Parameters...), int64_t bytes) {
  AllowSharedMemory(reinterpret_cast<const void*>(kernel), bytes);
}

}  // namespace plimsoll::gpu
