#include "trainer/resolve/device_start.h"

#include "base/stage.h"
#include "runtime/cuda/gpu_memory.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {

DeviceStart::DeviceStart(const config::RunConfig& config)
    : config_(config), pool_(ThreadsFrom(config)) {
  // Notes how much of the GPU other processes hold before this one uses it.
  runtime::GpuMeter::Find();
  made_ = std::async(std::launch::async, [this] { return MakeDevice(config_, pool_); });
}

runtime::Device& DeviceStart::Connected(Ranks& ranks, int64_t channels) {
  if (device_ == nullptr) {
    {
      const Stage stage("waiting for the device");
      device_ = made_.get();
    }
    const Stage stage("connecting ranks");
    ranks.Connect(*device_, channels);
  }
  return *device_;
}

}  // namespace plimsoll::trainer
