// The built-in speed of devices: how fast each op computes and moves bytes, so that a plan can be
// timed without the device. A call takes
//   max(FLOPs / rate of the op, bytes / bandwidth of the op) + a constant per node.
// (Roofline: Williams, Waterman, Patterson 2009.)
#pragma once

#include "graph/op.h"

namespace plimsoll::memory {

class DeviceRates {
 public:
  // So many threads of an AMD EPYC with AVX-512 (docs/architecture.md).
  static DeviceRates Cpu(int threads) { return DeviceRates(false, threads); }
  // One NVIDIA H200, programs recorded as graphs (docs/gpu_memory.md).
  static DeviceRates Gpu() { return DeviceRates(true, 1); }

  // Of a call that is no copy between places.
  double Seconds(const graph::OpCall& call) const;

  // Do copies to the host and back run beside the ops? On the CPU they are ops like others.
  bool copies_overlap() const { return gpu_; }
  // Such a copy's own time, one way.
  double CopySeconds(double bytes) const;

 private:
  DeviceRates(bool gpu, int threads) : gpu_(gpu), threads_(threads) {}

  bool gpu_;
  int threads_;
};

}  // namespace plimsoll::memory
