#include "tests/support/test_device.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include "base/compute_capability.h"
#include "base/error.h"
#include "runtime/cuda/cuda_device.h"

namespace plimsoll {

bool TestsOnGpus() {
  static const bool on_gpus = [] {
    const char* const device = std::getenv("PLIMSOLL_TEST_DEVICE");
    return device != nullptr && std::string_view(device) == "cuda";
  }();
  return on_gpus;
}

void ActAsNamedGpu() {
  const char* const named = std::getenv("PLIMSOLL_TEST_ACT_AS");
  if (named == nullptr || *named == '\0') return;
  const auto capability = ParseComputeCapability(named);
  if (!capability) throw UserError(std::string("PLIMSOLL_TEST_ACT_AS: no capability: ") + named);
  ActAs(*capability);
}

std::unique_ptr<runtime::Device> MakeTestDevice(ThreadPool& pool) {
  return TestsOnGpus() ? runtime::MakeCudaDevice(pool) : runtime::MakeCpuDevice(pool);
}

}  // namespace plimsoll
