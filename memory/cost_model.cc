#include "memory/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

namespace plimsoll::memory {
namespace {

using graph::OpCall;
using graph::TensorType;

// What one thread reaches, and the bandwidth that it has; measured on an AMD EPYC with AVX-512
// (docs/architecture.md). Products and attention are bound by FLOPs, all else by bytes.
struct Rates {
  double flops;
  double bytes;
};

Rates RatesOf(const std::string& op) {
  static const std::map<std::string, Rates> table = {
      {"linear", {220e9, 20e9}},
      {"linear_dx", {215e9, 20e9}},
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
  const auto found = table.find(op);
  return found == table.end() ? Rates{30e9, 12e9} : found->second;
}

constexpr double kSecondsPerNode = 2e-6;  // waking the threads

std::string TypeText(const TensorType* type) { return type == nullptr ? "_" : type->ToString(); }

std::string AttributeText(const graph::AttributeValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const int64_t* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const double* real = std::get_if<double>(&value)) return *real == 0 ? "0" : "real";
  return std::get<std::string>(value);
}

}  // namespace

std::string SignatureOf(const OpCall& call) {
  std::string result = call.op.name;
  for (const TensorType* type : call.inputs) result += " " + TypeText(type);
  result += " ->";
  for (const TensorType* type : call.outputs) result += " " + TypeText(type);
  for (const auto& [name, value] : call.attributes.entries()) {
    if (name != "key") result += " " + name + "=" + AttributeText(value);
  }
  return result;
}

std::string KindOf(const OpCall& call) {
  std::set<std::string_view> dtypes;
  for (const auto arguments : {call.inputs, call.outputs}) {
    for (const TensorType* type : arguments) {
      if (type != nullptr) dtypes.insert(graph::Name(type->dtype));
    }
  }
  std::string result = call.op.name;
  for (std::string_view dtype : dtypes) result += fmt::format(" {}", dtype);
  return result;
}

double CostModel::Ideal(const OpCall& call) const {
  const graph::Cost cost = graph::CostOf(call);
  const Rates rates = RatesOf(call.op.name);
  return std::max(cost.flops / rates.flops, cost.bytes / rates.bytes) / threads_ + kSecondsPerNode;
}

void CostModel::Add(const TimedCall& timed) {
  exact_[timed.signature] = timed.seconds;
  points_by_kind_[timed.kind][timed.ideal] = timed.seconds;
}

double CostModel::Seconds(const OpCall& call) const {
  if (call.op.view) return 0;
  const double ideal = Ideal(call);
  if (exact_.empty()) return ideal;
  const auto exact = exact_.find(SignatureOf(call));
  if (exact != exact_.end()) return exact->second;
  const auto kind = points_by_kind_.find(KindOf(call));
  if (kind == points_by_kind_.end()) return ideal;
  // The nearest by the factor between the two.
  const std::map<double, double>& points = kind->second;
  auto near = points.lower_bound(ideal);
  if (near == points.end()) --near;
  if (near != points.begin()) {
    const auto below = std::prev(near);
    if (std::abs(std::log(ideal / below->first)) < std::abs(std::log(near->first / ideal))) {
      near = below;
    }
  }
  return near->second * (ideal / near->first);
}

std::vector<double> CostModel::NodeSeconds(const graph::Program& program) const {
  std::vector<double> seconds;
  seconds.reserve(program.nodes().size());
  for (const graph::Node& node : program.nodes()) {
    seconds.push_back(node.op->view ? 0 : Seconds(program.CallOf(node).get()));
  }
  return seconds;
}

double CostModel::ProgramSeconds(const graph::Program& program) const {
  double total = 0;
  for (double seconds : NodeSeconds(program)) total += seconds;
  return total;
}

}  // namespace plimsoll::memory
