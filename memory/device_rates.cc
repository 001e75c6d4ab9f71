#include "memory/device_rates.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

namespace plimsoll::memory {
namespace {

struct Rates {
  double flops;
  double bytes;
};

using Table = std::map<std::string, Rates, std::less<>>;

Rates Find(const Table& table, std::string_view op, const Rates& otherwise) {
  const auto found = table.find(op);
  return found == table.end() ? otherwise : found->second;
}

// What one thread reaches, and the bandwidth that it has. Products and attention are bound by
// FLOPs, all else by bytes.
Rates CpuRates(std::string_view op) {
  static const Table table = {
      {"linear", {220e9, 20e9}},
      {"linear_dx", {215e9, 20e9}},
      {"linear_dx_gelu", {205e9, 20e9}},
      {"linear_dw", {210e9, 20e9}},
      {"matmul", {200e9, 20e9}},
      {"linear_cross_entropy", {200e9, 20e9}},
      {"linear_cross_entropy_backward", {205e9, 20e9}},
      {"linear_cross_entropy_train", {205e9, 20e9}},
      {"attention", {140e9, 20e9}},
      {"attention_backward", {130e9, 20e9}},
      {"gelu", {13e9, 20e9}},
      {"gelu_backward", {26e9, 20e9}},
  };
  return Find(table, op, {30e9, 12e9});
}

constexpr double kCpuSecondsPerNode = 2e-6;  // waking the threads

constexpr double kGpuBytes = 3.7e12;           // of a copy's 4.26e12
constexpr double kGpuVector = 30e12;           // FLOPs beside matrix products
constexpr double kGpuSecondsPerNode = 1.5e-6;  // between one kernel of a graph and the next
constexpr double kLinkBytes = 55.4e9;          // to pinned host memory or back
constexpr double kSecondsPerCopy = 2e-6;

// Products of 16-bit numbers, on the matrix units.
Rates GpuRates16(std::string_view op) {
  static const Table table = {
      {"linear", {700e12, kGpuBytes}},
      {"linear_dx", {700e12, kGpuBytes}},
      {"linear_dx_gelu", {620e12, kGpuBytes}},
      {"linear_dw", {700e12, kGpuBytes}},
      {"matmul", {500e12, kGpuBytes}},
      {"linear_cross_entropy", {600e12, kGpuBytes}},
      {"linear_cross_entropy_backward", {600e12, kGpuBytes}},
      {"linear_cross_entropy_train", {600e12, kGpuBytes}},
      {"attention", {330e12, kGpuBytes}},
      {"attention_backward", {250e12, kGpuBytes}},
  };
  return Find(table, op, {kGpuVector, kGpuBytes});
}

Rates GpuRates32(std::string_view op) {
  static const Table table = {
      {"linear", {45e12, kGpuBytes}},
      {"linear_dx", {45e12, kGpuBytes}},
      {"linear_dx_gelu", {45e12, kGpuBytes}},
      {"linear_dw", {45e12, kGpuBytes}},
      {"matmul", {40e12, kGpuBytes}},
      {"linear_cross_entropy", {40e12, kGpuBytes}},
      {"linear_cross_entropy_backward", {40e12, kGpuBytes}},
      {"linear_cross_entropy_train", {40e12, kGpuBytes}},
      {"attention", {10e12, kGpuBytes}},
      {"attention_backward", {10e12, kGpuBytes}},
  };
  return Find(table, op, {kGpuVector, kGpuBytes});
}

// Products of float32 numbers rounded to TF32, on the matrix units.
Rates GpuRatesTf32(std::string_view op) {
  static const Table table = {
      {"linear", {330e12, kGpuBytes}},
      {"linear_dx", {310e12, kGpuBytes}},
      {"linear_dw", {210e12, kGpuBytes}},
      {"matmul", {210e12, kGpuBytes}},
      {"linear_cross_entropy", {250e12, kGpuBytes}},
      {"linear_cross_entropy_backward", {250e12, kGpuBytes}},
      {"linear_cross_entropy_train", {250e12, kGpuBytes}},
  };
  return Find(table, op, GpuRates32(op));
}

bool Is16Bit(const graph::OpCall& call) {
  return call.has_input(0) && (call.input(0).dtype == graph::DType::kBFloat16 ||
                               call.input(0).dtype == graph::DType::kFloat16);
}

// Kernels that take the calls of many tensors in one launch.
bool Grouped(std::string_view op) { return op == "adamw" || op == "sgd"; }

}  // namespace

double DeviceRates::Seconds(const graph::OpCall& call) const {
  const graph::Cost cost = graph::CostOf(call);
  const std::string& op = call.op.name;
  if (!gpu_) {
    const Rates rates = CpuRates(op);
    return std::max(cost.flops / rates.flops, cost.bytes / rates.bytes) / threads_ +
           kCpuSecondsPerNode;
  }
  const Rates rates = Is16Bit(call)                 ? GpuRates16(op)
                      : call.attributes.Has("tf32") ? GpuRatesTf32(op)
                                                    : GpuRates32(op);
  const double work = std::max(cost.flops / rates.flops, cost.bytes / rates.bytes);
  return work + (Grouped(op) ? 0 : kGpuSecondsPerNode);
}

double DeviceRates::CopySeconds(double bytes) const { return bytes / kLinkBytes + kSecondsPerCopy; }

}  // namespace plimsoll::memory
