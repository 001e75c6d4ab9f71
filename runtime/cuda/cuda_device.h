// NVIDIA GPUs. Part of every build; without --config=cuda no GPU can be used.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace plimsoll::runtime {

// Whether this program was built with --config=cuda.
bool BuiltWithCuda();
// What a build without CUDA says to a run on a GPU.
inline constexpr const char* kNoCudaBuild =
    "device: cuda: this build has no CUDA; build one with it (bazel build --config=cuda "
    "//app:plimsoll), or set device: cpu";
// Whether there is a GPU that it can use. Never throws. False without --config=cuda.
bool CudaVisible();

// The first GPU that this process sees. Throws a UserError that says what to do when the build has
// no CUDA, no GPU is visible, its driver is too old, or this build has no code for it. The pool
// must outlive the device.
std::unique_ptr<Device> MakeCudaDevice(ThreadPool& pool);

}  // namespace plimsoll::runtime
