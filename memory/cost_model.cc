#include "memory/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>

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

// Caches the seconds of calls. A call's signature could be the key as well, but formatting a
// signature is slow.
class CostModel::Asked {
 public:
  template <typename Compute>
  double Get(const OpCall& call, Compute compute) {
    const std::vector<int64_t> types = TypesOf(call);
    const Asking asking{&call.op, types, call.attributes};
    {
      const std::lock_guard lock(mutex_);
      const auto known = seconds_.find(asking);
      if (known != seconds_.end()) return known->second;
    }
    const double seconds = compute();
    const std::lock_guard lock(mutex_);
    return seconds_.emplace(Key{&call.op, types, call.attributes}, seconds).first->second;
  }

 private:
  struct Key {
    const graph::OpDef* op;
    std::vector<int64_t> types;  // dtype and dimensions of each argument
    graph::Attributes attributes;
  };
  // A Key for look-ups, without copies.
  struct Asking {
    const graph::OpDef* op;
    const std::vector<int64_t>& types;
    const graph::Attributes& attributes;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(const auto& call) const {
      size_t hash = std::hash<const void*>()(call.op);
      for (int64_t word : call.types) {
        hash = (hash ^ static_cast<size_t>(word)) * size_t{0x9E3779B97F4A7C15};
        hash ^= hash >> 32;
      }
      return hash;
    }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const auto& a, const auto& b) const {
      return a.op == b.op && a.types == b.types && a.attributes == b.attributes;
    }
  };

  static std::vector<int64_t> TypesOf(const OpCall& call) {
    std::vector<int64_t> types;
    types.reserve(6 * (call.inputs.size() + call.outputs.size()));
    for (const auto arguments : {call.inputs, call.outputs}) {
      for (const TensorType* type : arguments) {
        types.push_back(type == nullptr ? -1 : static_cast<int64_t>(type->dtype));
        if (type == nullptr) continue;
        types.push_back(type->shape.rank());
        types.insert(types.end(), type->shape.dims().begin(), type->shape.dims().end());
      }
      types.push_back(-2);  // marks the end of the inputs
    }
    return types;
  }

  std::mutex mutex_;
  std::unordered_map<Key, double, Hash, Equal> seconds_;
};

void CostModel::Add(const TimedCall& timed) {
  asked_ = std::make_shared<Asked>();
  exact_[timed.signature] = timed.seconds;
  points_by_kind_[timed.kind][timed.ideal] = timed.seconds;
}

double CostModel::Seconds(const OpCall& call) const {
  if (call.op.view) return 0;
  if (exact_.empty() || IsOfRanks(call.op)) return Ideal(call);
  return asked_->Get(call, [&] { return Measured(call); });
}

double CostModel::Measured(const OpCall& call) const {
  const double ideal = Ideal(call);
  const auto exact = exact_.find(SignatureOf(call));
  if (exact != exact_.end()) return exact->second;
  const auto kind = points_by_kind_.find(KindOf(call));
  if (kind == points_by_kind_.end()) return ideal;
  // The nearest measured point, by the ratio of ideal times.
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
  const bool overlap = rates_.copies_overlap();
  std::vector<double> seconds(program.nodes().size(), 0.0);
  double now = 0;
  double free_from[2] = {0, 0};  // when the link to the device, and the link to the host, become
                                 // free
  std::unordered_map<graph::TensorId, double> arrives;
  for (size_t n = 0; n < seconds.size(); ++n) {
    const graph::Node& node = program.nodes()[n];
    if (overlap && node.op->transfer == graph::Transfer::kCopyStart) {
      const graph::Tensor& copy = program.tensor(node.outputs[0]);
      const bool to_host = copy.place == graph::Place::kHost;
      double& way = free_from[to_host];
      way = std::max(way, now);
      const double beside = std::max(0.0, free_from[!to_host] - way);
      way += rates_.CopySeconds(static_cast<double>(copy.bytes()), copy.place, beside);
      arrives[program.Root(node.outputs[0])] = way;
    } else if (overlap && node.op->transfer == graph::Transfer::kCopyDone) {
      const auto copy = arrives.find(program.Root(node.inputs[0]));
      if (copy != arrives.end()) seconds[n] = std::max(0.0, copy->second - now);
    } else if (!node.op->view) {
      const double alone = Seconds(program.CallOf(node).get());
      // Each direction of the link is busy from `now` until it is free.
      double beside = 0;
      for (const double end : free_from) beside += std::clamp(end - now, 0.0, alone);
      seconds[n] = alone + rates_.copies_slow() * beside;
    }
    now += seconds[n];
  }
  // A program ends when its copies have ended.
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
