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
  if (rates_.copies_overlap()) return SecondsBesideCopies(program);
  std::vector<double> seconds;
  seconds.reserve(program.nodes().size());
  for (const graph::Node& node : program.nodes()) {
    seconds.push_back(node.op->view ? 0 : Seconds(program.CallOf(node).get()));
  }
  return seconds;
}

std::vector<double> CostModel::SecondsBesideCopies(const graph::Program& program) const {
  std::vector<double> seconds(program.nodes().size(), 0.0);
  double now = 0;
  double free_from[2] = {0, 0};  // the ways to the device and to the host
  std::unordered_map<graph::TensorId, double> arrives;
  for (size_t n = 0; n < seconds.size(); ++n) {
    const graph::Node& node = program.nodes()[n];
    if (node.op->name == "copy_start") {
      const graph::Tensor& copy = program.tensor(node.outputs[0]);
      double& way = free_from[copy.place == graph::Place::kHost];
      way = std::max(way, now) + rates_.CopySeconds(static_cast<double>(copy.bytes()));
      arrives[program.Root(node.outputs[0])] = way;
    } else if (node.op->name == "copy_done") {
      const auto copy = arrives.find(program.Root(node.inputs[0]));
      if (copy != arrives.end()) seconds[n] = std::max(0.0, copy->second - now);
    } else if (!node.op->view) {
      seconds[n] = Seconds(program.CallOf(node).get());
    }
    now += seconds[n];
  }
  // A program ends with its copies.
  if (!seconds.empty()) {
    seconds.back() += std::max(0.0, std::max(free_from[0], free_from[1]) - now);
  }
  return seconds;
}

double CostModel::ProgramSeconds(const graph::Program& program) const {
  double total = 0;
  for (double seconds : NodeSeconds(program)) total += seconds;
  return total;
}

}  // namespace plimsoll::memory
