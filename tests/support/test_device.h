// The devices of tests that run on several ranks.
#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "runtime/device.h"

namespace plimsoll {

// Whether the ranks of this process's tests train on GPUs, one for each rank. They do with
// PLIMSOLL_TEST_DEVICE=cuda in the environment, and else train on CPUs.
bool TestsOnGpus();

// Lets this process's tests choose kernels as on the GPU that PLIMSOLL_TEST_ACT_AS names ("8.6"),
// if it is set (base/compute_capability.h).
void ActAsNamedGpu();

// The pool must outlive the device.
std::unique_ptr<runtime::Device> MakeTestDevice(ThreadPool& pool);

}  // namespace plimsoll
