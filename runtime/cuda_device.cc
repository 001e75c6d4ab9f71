#include "runtime/cuda_device.h"

#include "gpu/first_device.h"
#include "gpu/libraries.h"
#include "gpu/peak_rates.h"
#include "runtime/cuda_communicator.h"
#include "runtime/cuda_memory.h"
#include "runtime/gpu_memory.h"

namespace plimsoll::runtime {
namespace {

struct CurrentDevice {
  CurrentDevice() { gpu::UseFirstDevice(); }
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(ThreadPool& pool)
      : Device(pool), rates_(gpu::PeakRatesOf(libraries_.properties().name)) {}

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return libraries_.properties().name; }
  std::unique_ptr<DeviceMemory> Allocate(int64_t arena_bytes, int64_t host_arena_bytes) override {
    return std::make_unique<CudaMemory>(arena_bytes, host_arena_bytes, streams_, libraries_,
                                        meter_);
  }
  std::unique_ptr<ops::Communicator> MakeCommunicator(RankGroup& ranks) override {
    return MakeCudaCommunicator(ranks, {.name = "data"});
  }
  int steps_ahead() const override { return 1; }
  void Synchronize() override {
    gpu::Check(cudaStreamSynchronize(streams_.compute.get()), "cudaStreamSynchronize");
  }
  double peak_flops(graph::DType dtype) const override {
    switch (dtype) {
      case graph::DType::kBFloat16:
      case graph::DType::kFloat16:
        return rates_.half;
      case graph::DType::kFloat32:
        return rates_.fp32;
      default:
        return 0;
    }
  }

 private:
  std::optional<GpuMeter> meter_ = GpuMeter::Find();  // before the context
  CurrentDevice current_;                             // before all that needs a context
  gpu::Libraries libraries_;
  CudaStreams streams_;
  gpu::PeakRates rates_;
};

}  // namespace

bool BuiltWithCuda() { return true; }

bool CudaVisible() {
  int devices = 0;
  const bool visible = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  cudaGetLastError();  // none to be found is no error here
  return visible;
}

std::unique_ptr<Device> MakeCudaDevice(ThreadPool& pool) {
  return std::make_unique<CudaDevice>(pool);
}

}  // namespace plimsoll::runtime
