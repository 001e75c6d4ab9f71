// The built-in speed of devices: how fast each op computes and moves bytes, so that a plan can be
// timed without the device. A call on a CPU takes
//   max(FLOPs / rate of the op, bytes / bandwidth of the op) + a constant per node.
// (Roofline: Williams, Waterman, Patterson 2009.) On a GPU a call takes the time that calls of its
// kind took on an H200 (memory/kind_rates.h). Collectives of GPUs are timed by
// memory/interconnect.h.
#pragma once

#include <string>
#include <string_view>

#include "base/compute_capability.h"
#include "base/mesh.h"
#include "gpu/peak_rates.h"
#include "graph/op.h"
#include "graph/tensor.h"
#include "memory/kind_rates.h"

namespace plimsoll::memory {

// The rates of the link between a GPU and pinned memory of the host, in bytes per second.
struct LinkRates {
  double to_device = 0, to_host = 0;            // while the other direction is idle
  double both_to_device = 0, both_to_host = 0;  // while both directions are busy
  // Whether the rates were measured on this machine; otherwise they are built in.
  bool measured = false;

  bool operator==(const LinkRates&) const = default;
};

class DeviceRates {
 public:
  // The rates of `threads` threads of an AMD EPYC with AVX-512 (docs/measured/kernels.md).
  static DeviceRates Cpu(int threads) { return DeviceRates(threads); }
  // The rates of one NVIDIA H200 with programs recorded as CUDA graphs
  // (docs/measured/gpu_memory.md), by the kernels for GPUs of that capability. For any other GPU
  // they are scaled by the ratio of that GPU's peaks to the H200's (gpu/peak_rates.h); an unknown
  // GPU gets the H200's rates.
  static DeviceRates Gpu(std::string_view name = kMeasuredGpu, ComputeCapability capability = {}) {
    return DeviceRates(name, capability);
  }

  // The origin of the rates: "of an NVIDIA H200 without Hopper's kernels, scaled to the data sheet
  // of an NVIDIA T4, never measured there". Empty for a CPU.
  std::string Origin() const;

  // Whether matrix units multiply 8-bit floats. An unknown GPU is assumed to have such units; a CPU
  // emulates them.
  bool multiplies_codes() const { return gpu_ == nullptr || gpu_->fp8 > 0; }

  // The seconds of a call that is not a copy between device and host.
  double Seconds(const graph::OpCall& call) const;

  // Whether copies to and from the host overlap with ops. On the CPU they are ordinary ops.
  bool copies_overlap() const { return gpu_ != nullptr; }
  // The seconds of a copy to or from the host. During its first `both_seconds` the other direction
  // is busy, too.
  double CopySeconds(double bytes, graph::Place to = graph::Place::kHost,
                     double both_seconds = 0) const;
  // The fraction of a copy's time by which ops that overlap with it slow down: they share memory,
  // caches and power.
  double copies_slow() const { return copies_overlap() ? 0.037 : 0; }
  // The rates of a GPU's link to the host: built-in rates until set_link() is called.
  const LinkRates& link() const { return link_; }
  void set_link(const LinkRates& link) { link_ = link; }
  // Sets the mesh of ranks, for the time of collectives. Without a mesh, collectives of a GPU take
  // no time.
  void set_mesh(const Mesh& mesh) { mesh_ = mesh; }

 private:
  static constexpr std::string_view kMeasuredGpu = "NVIDIA H200";

  explicit DeviceRates(int threads) : threads_(threads) {}
  DeviceRates(std::string_view name, ComputeCapability capability);

  // The measured rate of a kind; nullptr if the kind was not measured.
  const MeasuredRate* Measured(const RateKind& kind, graph::CostClass cost_class) const;
  double GpuSeconds(const graph::OpDef& op, const RateKind& kind, const graph::Cost& work) const;

  std::string unknown_gpu_;                   // the GPU's name if its peak rates are unknown
  const gpu::PeakRates* gpu_ = nullptr;       // nullptr means the CPU
  const gpu::PeakRates* measured_ = nullptr;  // the GPU that the rates were measured on
  ComputeCapability capability_;              // by which the GPU's kernels are chosen
  int threads_ = 1;
  LinkRates link_;
  Mesh mesh_;
};

}  // namespace plimsoll::memory
