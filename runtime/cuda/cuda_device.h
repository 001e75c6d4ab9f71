// NVIDIA GPUs. Included in every build; without --config=cuda no GPU can be used.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace plimsoll::runtime {

// Whether this program was built with --config=cuda.
bool BuiltWithCuda();
// The error message for a run on a GPU with a build without CUDA.
inline constexpr const char* kNoCudaBuild =
    "device: cuda: this build has no CUDA; build one with it (bazel build --config=cuda "
    "//app:plimsoll), or set device: cpu";
// Whether this build can use a GPU of the machine. Never throws. False without --config=cuda.
bool CudaVisible();

// Makes the device of the first GPU that this process sees. Throws a UserError that says what to do
// if the build has no CUDA, no GPU is visible, the GPU's driver is too old, or this build has no
// code for it. The pool must outlive the device.
std::unique_ptr<Device> MakeCudaDevice(ThreadPool& pool);

}  // namespace plimsoll::runtime
