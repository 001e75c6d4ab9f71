#include <exception>

#include "gpu/first_device.h"
#include "gpu/measure_ceilings.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/cuda/measured_rates.h"

namespace plimsoll::runtime {
namespace {

constexpr int64_t kBytes = int64_t{16} << 20;  // size of a copy
constexpr int kCopies = 32;

// One direction of the link between host and GPU.
struct Way {
  explicit Way(cudaMemcpyKind way) : kind(way) {}

  // Enqueues copies after `start`.
  void Enqueue(const CudaEvent& start) const {
    start.MakeWait(stream.get());
    const bool to_host = kind == cudaMemcpyDeviceToHost;
    for (int i = 0; i < kCopies; ++i) {
      gpu::Check(cudaMemcpyAsync(to_host ? host.data() : device.data(),
                                 to_host ? device.data() : host.data(), kBytes, kind, stream.get()),
                 "cudaMemcpyAsync");
    }
    ended.Record(stream.get());
  }
  double Rate(const CudaEvent& start) const {
    ended.Wait();
    return 1e6 * static_cast<double>(kCopies * kBytes) / ended.MicrosecondsSince(start);
  }

  cudaMemcpyKind kind;
  CudaBuffer device{CudaBuffer::Kind::kDevice, kBytes, "memory to measure copies"};
  CudaBuffer host{CudaBuffer::Kind::kPinned, kBytes, "memory to measure copies"};
  CudaStream stream;
  CudaEvent ended{CudaEvent::Kind::kTime};
};

HostLink MeasureLink() {
  const Way up(cudaMemcpyHostToDevice), down(cudaMemcpyDeviceToHost);
  const CudaStream stream;
  const CudaEvent start(CudaEvent::Kind::kTime);
  HostLink link;
  for (const bool counts : {false, true}) {
    for (const Way* way : {&up, &down}) {
      start.Record(stream.get());
      way->Enqueue(start);
      const double rate = way->Rate(start);
      if (counts) (way == &up ? link.to_device : link.to_host) = rate;
    }
  }
  start.Record(stream.get());
  up.Enqueue(start);
  down.Enqueue(start);
  link.both_to_device = up.Rate(start);
  link.both_to_host = down.Rate(start);
  return link;
}

}  // namespace

std::optional<HostLink> MeasureHostLink() {
  if (!CudaVisible()) return std::nullopt;
  std::optional<HostLink> link;
  try {
    gpu::UseFirstDevice();
    link = MeasureLink();
  } catch (const std::exception&) {
    cudaGetLastError();  // the next user of the GPU reports the problem
  }
  return link;
}

Ceilings MeasureCeilings(DeviceKind device) {
  if (device != DeviceKind::kCuda) return {};
  gpu::Libraries libraries;
  const gpu::Ceilings measured = gpu::MeasureCeilings(libraries);
  return {measured.copy_bytes, measured.bf16_flops, measured.tf32_flops, measured.fp32_flops};
}

}  // namespace plimsoll::runtime
