#include "tests/support/test_device.h"

#include <cstdlib>
#include <string_view>

#include "runtime/cuda/cuda_device.h"

namespace plimsoll {

bool TestsOnGpus() {
  static const bool on_gpus = [] {
    const char* const device = std::getenv("PLIMSOLL_TEST_DEVICE");
    return device != nullptr && std::string_view(device) == "cuda";
  }();
  return on_gpus;
}

std::unique_ptr<runtime::Device> MakeTestDevice(ThreadPool& pool) {
  return TestsOnGpus() ? runtime::MakeCudaDevice(pool) : runtime::MakeCpuDevice(pool);
}

}  // namespace plimsoll
