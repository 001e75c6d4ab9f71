// The built-in speed of devices: how fast each op computes and moves bytes, so that a plan can be
// timed without the device. A call takes
//   max(FLOPs / rate of the op, bytes / bandwidth of the op) + a constant per node.
// (Roofline: Williams, Waterman, Patterson 2009.)
#pragma once

#include "graph/op.h"
#include "memory/gpu_figures.h"

namespace plimsoll::memory {

class DeviceRates {
 public:
  // So many threads of an AMD EPYC with AVX-512 (docs/kernels.md).
  static DeviceRates Cpu(int threads) { return DeviceRates(threads); }
  // One NVIDIA H200, programs recorded as graphs (docs/gpu_memory.md); those of another GPU are in
  // proportion to the peaks of both.
  static DeviceRates Gpu(const GpuFigures& gpu = MeasuredGpu()) { return DeviceRates(gpu); }

  // Of a call that is no copy between places.
  double Seconds(const graph::OpCall& call) const;

  // Do copies to the host and back run beside the ops? On the CPU they are ops like others.
  bool copies_overlap() const { return gpu_ != nullptr; }
  // Such a copy's own time, one way.
  double CopySeconds(double bytes) const;

 private:
  explicit DeviceRates(int threads) : gpu_(nullptr), threads_(threads) {}
  explicit DeviceRates(const GpuFigures& gpu) : gpu_(&gpu), threads_(1) {}

  const GpuFigures* gpu_;  // nullptr: the CPU
  int threads_;
};

}  // namespace plimsoll::memory
