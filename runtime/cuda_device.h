// NVIDIA GPUs. In every build; without --config=cuda there is none to be had.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace plimsoll::runtime {

// Was this program built with --config=cuda?
bool BuiltWithCuda();
// Is there a GPU that it can use? Never throws. False without --config=cuda.
bool CudaVisible();

// The first GPU that this process sees. UserError, with the way out, when the build has no CUDA, no
// GPU is visible, its driver is too old, or this build has no code for it. The pool must outlive
// the device.
std::unique_ptr<Device> MakeCudaDevice(ThreadPool& pool);

}  // namespace plimsoll::runtime
