// The built-in speed of devices: how fast each op computes and moves bytes, so that a plan can be
// timed without the device. A call takes
//   max(FLOPs / rate of the op, bytes / bandwidth of the op) + a constant per node.
// (Roofline: Williams, Waterman, Patterson 2009.)
#pragma once

#include <string>
#include <string_view>

#include "gpu/peak_rates.h"
#include "graph/op.h"

namespace plimsoll::memory {

class DeviceRates {
 public:
  // So many threads of an AMD EPYC with AVX-512 (docs/kernels.md).
  static DeviceRates Cpu(int threads) { return DeviceRates(threads); }
  // One NVIDIA H200, programs recorded as graphs (docs/gpu_memory.md). Those of another GPU are in
  // proportion to the peaks of both (gpu/peak_rates.h); of one that isn't known they are the
  // H200's.
  static DeviceRates Gpu(std::string_view name = kMeasuredGpu) { return DeviceRates(name); }

  // Whose rates they are: "of an NVIDIA H200, scaled to the data sheet of an NVIDIA T4". Empty for
  // a CPU.
  std::string Origin() const;

  // Of a call that is no copy between places.
  double Seconds(const graph::OpCall& call) const;

  // Do copies to the host and back run beside the ops? On the CPU they are ops like others.
  bool copies_overlap() const { return gpu_ != nullptr; }
  // Such a copy's own time, one way.
  double CopySeconds(double bytes) const;

 private:
  static constexpr std::string_view kMeasuredGpu = "NVIDIA H200";

  explicit DeviceRates(int threads) : threads_(threads) {}
  explicit DeviceRates(std::string_view name);

  std::string unknown_gpu_;                   // whose rates are not known
  const gpu::PeakRates* gpu_ = nullptr;       // nullptr: the CPU
  const gpu::PeakRates* measured_ = nullptr;  // of the GPU that the rates were measured on
  int threads_ = 1;
};

}  // namespace plimsoll::memory
