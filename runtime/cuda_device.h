// NVIDIA GPUs. Part of every build; without --config=cuda no GPU can be used.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace plimsoll::runtime {

// Whether this program was built with --config=cuda.
bool BuiltWithCuda();
// Whether there is a GPU that it can use. Never throws. False without --config=cuda.
bool CudaVisible();

// The first GPU that this process sees. Throws a UserError that says what to do when the build has
// no CUDA, no GPU is visible, its driver is too old, or this build has no code for it. The pool
// must outlive the device.
std::unique_ptr<Device> MakeCudaDevice(ThreadPool& pool);

}  // namespace plimsoll::runtime
