#include "memory/device_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "memory/h200_rates.h"
#include "memory/interconnect.h"
#include "memory/portable_rates.h"

namespace plimsoll::memory {
namespace {

using graph::CostClass;
using graph::OpDef;

// Maps an op's name to its measured rate.
using Table = std::map<std::string, double, std::less<>>;

// The rate of an op that was not measured: the rate of the slowest measured op of its class.
struct Unmeasured {
  double bandwidth, products, attention;

  double Of(CostClass cost_class) const {
    if (cost_class == CostClass::kBandwidth) return bandwidth;
    return cost_class == CostClass::kProducts ? products : attention;
  }
};

double Find(const Table& table, const OpDef& op, const Unmeasured& unmeasured) {
  const auto found = table.find(op.name);
  return found == table.end() ? unmeasured.Of(op.cost_class) : found->second;
}

constexpr double kCpuFlops = 30e9;  // the FLOP/s of bandwidth-bound ops

// The FLOP/s that one thread reaches. FLOPs bound products and attention, bytes bound all else.
double CpuFlops(const OpDef& op) {
  static const Table table = {
      {"linear", 220e9},
      {"linear_dx", 215e9},
      {"linear_dx_gelu", 205e9},
      {"linear_dw", 210e9},
      {"scaled_linear", 150e9},
      {"matmul", 200e9},
      {"linear_cross_entropy", 200e9},
      {"linear_cross_entropy_backward", 205e9},
      {"linear_cross_entropy_train", 205e9},
      {"attention", 140e9},
      {"attention_backward", 130e9},
      {"gelu", 13e9},
      {"gelu_backward", 26e9},
      {"gelu_with_backward", 26e9},
  };
  return Find(table, op, {kCpuFlops, 200e9, 130e9});
}

double CpuBytes(const OpDef& op) {
  if (op.name == "quantize") return 2e9;           // conversions for which there is no instruction
  return CpuFlops(op) == kCpuFlops ? 12e9 : 20e9;  // other such ops find their data in caches
}

constexpr double kCpuSecondsPerNode = 2e-6;  // the time to wake the threads

constexpr double kGpuSecondsPerNode = 1.5e-6;  // the time between one kernel of a graph and the
                                               // next
// The rate of copies to pinned host memory or back. A copy alone reaches 55.4e9, but a step of
// GPT-2 1558M that copied 5 GB each way while its kernels ran was as slow as with this rate.
constexpr double kLinkBytes = 48e9;
constexpr double kSecondsPerCopy = 2e-6;

// The rates of an op that was not measured with this type of numbers: low rates of the op's class.
MeasuredRate UnmeasuredOnGpu(CostClass cost_class, const RateKind& kind) {
  MeasuredRate rate{kind, kGpuSecondsPerNode, 45e12, 3.4e12};
  if (cost_class == CostClass::kBandwidth) return rate;
  const bool attention = cost_class == CostClass::kAttention;
  if (kind.numbers == "half") rate.flops = attention ? 270e12 : 500e12;
  if (kind.numbers == "tf32") rate.flops = attention ? 14e12 : 210e12;
  if (kind.numbers == "fp32") rate.flops = attention ? 14e12 : 40e12;
  if (kind.numbers == "fp8") rate.flops = 1150e12;
  return rate;
}

}  // namespace

DeviceRates::DeviceRates(std::string_view name, ComputeCapability capability)
    : gpu_(gpu::FindPeakRates(name)),
      measured_(gpu::FindPeakRates(kMeasuredGpu)),
      capability_(capability) {
  if (gpu_ == nullptr) {
    unknown_gpu_ = name;
    gpu_ = measured_;
  }
  const double rate = kLinkBytes * (gpu_->link / measured_->link);
  link_ = {rate, rate, rate, rate};
}

std::string DeviceRates::Origin() const {
  if (gpu_ == nullptr) return "";
  const std::string measured = fmt::format(
      "of an {}{}", measured_->name, capability_.is_hopper() ? "" : " without Hopper's kernels");
  if (!unknown_gpu_.empty())
    return fmt::format("{}; none of the {} are known", measured, unknown_gpu_);
  if (gpu_ == measured_) return measured;
  return fmt::format("{}, scaled to the data sheet of an {}, never measured there", measured,
                     gpu_->name);
}

double DeviceRates::Seconds(const graph::OpCall& call) const {
  const OpDef& op = call.op;
  if (gpu_ == nullptr) {
    const graph::Cost cost = graph::CostOf(call);
    return std::max(cost.flops / CpuFlops(op), cost.bytes / CpuBytes(op)) / threads_ +
           kCpuSecondsPerNode;
  }
  if (op.transfer == graph::Transfer::kCollectiveStart) {
    if (mesh_.size() == 1) return 0;
    return CollectiveSeconds(TrafficOf(call, mesh_)) * measured_->peers / gpu_->peers;
  }
  const graph::Cost work = KernelWork(call);
  RateKind kind = RateKindOf(call);
  // Before 8.0, kernels of attention in 16 bits are those of float32, without tensor cores.
  if (kind.numbers == "half" && op.cost_class == CostClass::kAttention && capability_.major < 8) {
    kind.numbers = "fp32";
  }
  if (kind.numbers != "tf32") return GpuSeconds(op, kind, work);
  // A GPU without TF32 computes such calls as other float32 calls, and one with TF32 is no slower.
  const double as_fp32 = GpuSeconds(op, {kind.op, "fp32", kind.form}, work);
  if (!capability_.multiplies_tf32()) return as_fp32;
  return std::min(as_fp32, GpuSeconds(op, kind, work));
}

const MeasuredRate* DeviceRates::Measured(const RateKind& kind, CostClass cost_class) const {
  const MeasuredRate* portable =
      capability_.is_hopper() ? nullptr : FindRate(PortableRates(), kind, CostClass::kProducts);
  return portable != nullptr ? portable : FindRate(H200Rates(), kind, cost_class);
}

double DeviceRates::GpuSeconds(const OpDef& op, const RateKind& kind,
                               const graph::Cost& work) const {
  const MeasuredRate* measured = Measured(kind, op.cost_class);
  const MeasuredRate rate = measured != nullptr ? *measured : UnmeasuredOnGpu(op.cost_class, kind);
  const double vector = gpu_->fp32 / measured_->fp32;
  double scale = vector;
  if (op.cost_class != CostClass::kBandwidth) {
    if (kind.numbers == "half") scale = gpu_->half / measured_->half;
    if (kind.numbers == "tf32") scale = gpu_->tf32 / measured_->tf32;
    // Without matrix units for 8-bit numbers, products of 8-bit numbers run at best as fast as
    // those of 16 bits.
    if (kind.numbers == "fp8")
      scale = (multiplies_codes() ? gpu_->fp8 : gpu_->half) / measured_->fp8;
  }
  const double memory = gpu_->memory / measured_->memory;
  return (op.shares_launches ? 0 : rate.start) + work.flops / (rate.flops * scale) +
         work.bytes / (rate.bytes * memory);
}

double DeviceRates::CopySeconds(double bytes, graph::Place to, double both_seconds) const {
  const bool to_host = to == graph::Place::kHost;
  const double alone = to_host ? link_.to_host : link_.to_device;
  const double both = to_host ? link_.both_to_host : link_.both_to_device;
  const double so_far = std::min(bytes, both_seconds * both);
  const double seconds = alone == both ? bytes / alone : so_far / both + (bytes - so_far) / alone;
  return seconds + kSecondsPerCopy;
}

}  // namespace plimsoll::memory
