#include "memory/device_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "memory/interconnect.h"

namespace plimsoll::memory {
namespace {

using graph::CostClass;
using graph::OpDef;

// Measured rates, by op.
using Table = std::map<std::string, double, std::less<>>;

// The rate of an op that was not measured: that of the slowest op of its class.
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

constexpr double kCpuFlops = 30e9;  // of bandwidth-bound ops

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
  if (op.name == "quantize") return 2e9;           // conversions that no instruction does
  return CpuFlops(op) == kCpuFlops ? 12e9 : 20e9;  // the others have their data in caches
}

constexpr double kCpuSecondsPerNode = 2e-6;  // waking the threads

constexpr double kGpuVector = 45e12;           // FLOP/s outside the matrix units
constexpr double kGpuSecondsPerNode = 1.5e-6;  // between one kernel of a graph and the next
// To pinned host memory or back: a copy alone reaches 55.4e9, but a step of GPT-2 1558M that copied
// 5 GB each way beside its kernels was as slow as with this rate.
constexpr double kLinkBytes = 48e9;
constexpr double kSecondsPerCopy = 2e-6;

// Products of 16-bit numbers, on the matrix units.
double GpuFlops16(const OpDef& op) {
  static const Table table = {
      {"linear", 690e12},
      {"linear_dx", 690e12},
      {"linear_dx_gelu", 620e12},
      {"linear_dw", 630e12},
      {"matmul", 500e12},
      {"linear_cross_entropy", 590e12},
      {"linear_cross_entropy_backward", 600e12},
      {"linear_cross_entropy_train", 620e12},
      {"attention", 340e12},
      {"attention_backward", 270e12},
  };
  return Find(table, op, {kGpuVector, 500e12, 270e12});
}

// Products of 8-bit codes, on the matrix units. A float32 result that is added to is read and
// written.
double GpuFlops8(const graph::OpCall& call) {
  constexpr int64_t kAcc = 5;
  const bool adds = call.has_input(kAcc) && call.input(kAcc).dtype == graph::DType::kFloat32;
  return adds ? 1150e12 : 1200e12;
}

double GpuFlops32(const OpDef& op) {
  static const Table table = {
      {"linear", 45e12},
      {"linear_dx", 45e12},
      {"linear_dx_gelu", 45e12},
      {"linear_dw", 45e12},
      {"matmul", 40e12},
      {"linear_cross_entropy", 40e12},
      {"linear_cross_entropy_backward", 40e12},
      {"linear_cross_entropy_train", 40e12},
      {"attention", 23e12},
      {"attention_backward", 14e12},
  };
  return Find(table, op, {kGpuVector, 40e12, 14e12});
}

// A copy reads and writes 4.26e12 bytes a second.
double GpuBytes(const OpDef& op) {
  static const Table table = {
      {"adamw", 4.05e12},
      {"global_norm", 4.05e12},
      {"gelu", 4.05e12},
      {"gelu_backward", 4.2e12},
      {"embedding_dw", 2.8e12},
      {"add", 4.05e12},
      {"swiglu", 4.2e12},
      {"swiglu_backward", 4.2e12},
      {"swiglu_with_backward", 4.2e12},
      {"geglu", 4.2e12},
      {"geglu_backward", 4.2e12},
      {"geglu_with_backward", 4.2e12},
      {"gelu_with_backward", 3.8e12},
      {"quantize", 3.6e12},
  };
  return Find(table, op, {3.6e12, 3.6e12, 3.6e12});
}

// Products of float32 numbers, rounded to TF32, on the matrix units.
double GpuFlopsTf32(const OpDef& op) {
  static const Table table = {
      {"linear", 330e12},
      {"linear_dx", 310e12},
      {"linear_dw", 210e12},
      {"matmul", 210e12},
      {"linear_cross_entropy", 250e12},
      {"linear_cross_entropy_backward", 250e12},
      {"linear_cross_entropy_train", 250e12},
  };
  const double float32 = GpuFlops32(op);
  return Find(table, op, {float32, float32, float32});
}

bool Is16Bit(const graph::OpCall& call) {
  return call.has_input(0) && (call.input(0).dtype == graph::DType::kBFloat16 ||
                               call.input(0).dtype == graph::DType::kFloat16);
}

bool MultipliesCodes(const graph::OpCall& call) {
  return call.op.cost_class == CostClass::kProducts && call.has_input(0) &&
         graph::IsFloat8(call.input(0).dtype);
}

// The rates of attention are those for 1,024 tokens. In longer sequences, a smaller part of the
// causal scores lies in tiles that are computed only in part, and wider heads give the matrix units
// more work per exponential.
double AttentionFactor(const graph::OpCall& call) {
  if (call.op.cost_class != CostClass::kAttention) return 1;
  const int64_t heads = call.attributes.GetInt("heads");
  const int64_t head =
      call.input(0).shape.dim(-1) / (heads + 2 * call.attributes.GetInt("kv_heads"));
  constexpr int64_t kWide = 96;
  constexpr double kTokens = 1024, kHalf = 350;  // kHalf tokens reach half of the highest rate
  const auto tokens = static_cast<double>(call.input(0).shape.dim(-2));
  return tokens / (tokens + kHalf) * (kTokens + kHalf) / kTokens * (head > kWide ? 1.06 : 1);
}

}  // namespace

DeviceRates::DeviceRates(std::string_view name)
    : gpu_(gpu::FindPeakRates(name)), measured_(gpu::FindPeakRates(kMeasuredGpu)) {
  if (gpu_ == nullptr) {
    unknown_gpu_ = name;
    gpu_ = measured_;
  }
  const double rate = kLinkBytes * (gpu_->link / measured_->link);
  link_ = {rate, rate, rate, rate};
}

std::string DeviceRates::Origin() const {
  if (gpu_ == nullptr) return "";
  const std::string measured = fmt::format("of an {}", measured_->name);
  if (!unknown_gpu_.empty())
    return fmt::format("{}; none of the {} are known", measured, unknown_gpu_);
  if (gpu_ == measured_) return measured;
  return fmt::format("{}, scaled to the data sheet of an {}", measured, gpu_->name);
}

double DeviceRates::Seconds(const graph::OpCall& call) const {
  const graph::Cost cost = graph::CostOf(call);
  const OpDef& op = call.op;
  if (gpu_ == nullptr) {
    return std::max(cost.flops / CpuFlops(op), cost.bytes / CpuBytes(op)) / threads_ +
           kCpuSecondsPerNode;
  }
  const auto scale = [this](double gpu::PeakRates::*peak) {
    return gpu_->*peak / measured_->*peak;
  };
  if (op.transfer == graph::Transfer::kCollectiveStart) {
    if (mesh_.size() == 1) return 0;
    return CollectiveSeconds(TrafficOf(call, mesh_)) / scale(&gpu::PeakRates::peers);
  }
  const double vector = scale(&gpu::PeakRates::fp32), memory = scale(&gpu::PeakRates::memory);
  double flops = GpuFlops32(op) * vector;
  if (MultipliesCodes(call)) {
    // Without units for them such products run, at best, like those of 16 bits.
    const double peak = multiplies_codes() ? gpu_->fp8 : gpu_->half;
    flops = GpuFlops8(call) * peak / measured_->fp8;
  } else if (Is16Bit(call) && op.cost_class != CostClass::kBandwidth) {
    flops = GpuFlops16(op) * AttentionFactor(call) * scale(&gpu::PeakRates::half);
  } else if (call.attributes.Has("tf32") && GpuFlopsTf32(op) != GpuFlops32(op)) {
    // A GPU without TF32 computes such products like other float32 products.
    flops = std::max(flops, GpuFlopsTf32(op) * scale(&gpu::PeakRates::tf32));
  }
  return std::max(cost.flops / flops, cost.bytes / (GpuBytes(op) * memory)) +
         (op.shares_launches ? 0 : kGpuSecondsPerNode);
}

double DeviceRates::CopySeconds(double bytes, graph::Place to, double beside) const {
  const bool to_host = to == graph::Place::kHost;
  const double alone = to_host ? link_.to_host : link_.to_device;
  const double both = to_host ? link_.both_to_host : link_.both_to_device;
  const double so_far = std::min(bytes, beside * both);
  const double seconds = alone == both ? bytes / alone : so_far / both + (bytes - so_far) / alone;
  return seconds + kSecondsPerCopy;
}

}  // namespace plimsoll::memory
