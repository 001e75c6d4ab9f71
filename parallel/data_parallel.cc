#include "parallel/data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/axes.h"
#include "base/bytes.h"
#include "base/error.h"
#include "graph/builder.h"
#include "graph/step_shape.h"
#include "graph/tensor_ids.h"
#include "ops/collectives/axis.h"
#include "ops/collectives/collective.h"
#include "ops/definition.h"
#include "parallel/gradient_buckets.h"
#include "parallel/zero_shards.h"

namespace plimsoll::parallel {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::OverRanks;
using graph::Phase;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;

class Reducer {
 public:
  Reducer(Program& program, const DataParallelOptions& options)
      : program_(program),
        nodes_(program.nodes()),
        ranks_(options.ranks),
        gradients_on_host_(options.gradients_on_host) {
    update_ = static_cast<int>(graph::FirstUpdate(program));
    trains_ = update_ < static_cast<int>(nodes_.size());
    FillBuckets(options);
    if (!trains_ && HasGradients()) return;  // metrics are not complete
    FindMerged();
  }

  graph::PassResult Run() {
    if (buckets_.empty() && carried_.empty() && firsts_.empty())
      return {false, "nothing to sum among ranks"};
    program_.mutable_nodes().clear();
    size_t started = 0, finished = 0;  // buckets
    for (int n = 0; n <= static_cast<int>(nodes_.size()); ++n) {
      if (n == update_) {
        phase_ = n > 0 ? nodes_[static_cast<size_t>(n) - 1].phase : Phase::kForward;
        for (TensorId sum : carried_) StartCarried(sum);
        for (TensorId pending : firsts_) StartFirst(pending);
        while (finished < buckets_.size()) FinishEarly(buckets_[finished++]);
        if (trains_) phase_ = Phase::kUpdate;
        for (const Bucket& bucket : buckets_) {
          FinishReduced(bucket, /*early=*/false);
          for (const Packed& packed : bucket.packed) FinishPacked(packed);
        }
        for (TensorId sum : carried_) FinishCarried(sum);
        for (TensorId pending : firsts_) FinishFirst(pending);
      }
      if (n == static_cast<int>(nodes_.size())) break;
      Keep(nodes_[static_cast<size_t>(n)]);
      for (; started < buckets_.size() && buckets_[started].behind == n; ++started) {
        if (started >= 2) FinishEarly(buckets_[finished++]);
        Start(buckets_[started]);
      }
    }
    program_.DropUnusedTensors();
    return {true, fmt::format("{} of gradients summed among ranks, buckets: {}",
                              FormatBytes(bytes_), buckets_.size())};
  }

 private:
  // Metrics come before states.
  void FindMerged() {
    std::vector<TensorId> states;
    for (const TensorId id : graph::TensorIds(program_)) {
      const Tensor& tensor = program_.tensor(id);
      if (!tensor.merge) continue;
      const OverRanks over = tensor.merge->ranks;
      if (over == OverRanks::kFirst) firsts_.push_back(id);
      if (over != OverRanks::kSum && over != OverRanks::kMean && over != OverRanks::kMax) continue;
      (tensor.role == Role::kMetric ? carried_ : states).push_back(id);
    }
    std::ranges::copy(states, std::back_inserter(carried_));
  }

  int LastWriter(TensorId tensor) const {
    int last = -1;
    for (int n = 0; n < update_; ++n) {
      for (TensorId id : nodes_[static_cast<size_t>(n)].outputs) {
        if (id == tensor) last = n;
      }
    }
    if (last < 0) {
      throw InternalError("data_parallel: nothing writes '" + program_.tensor(tensor).name + "'");
    }
    return last;
  }

  bool HasGradients() const {
    return std::any_of(program_.tensors().begin(), program_.tensors().end(),
                       [](const Tensor& tensor) { return tensor.role == Role::kGradient; });
  }

  bool TakesPart(const Node& node) const {
    return node.op->name == "own_part" && program_.tensor(node.inputs[0]).role == Role::kGradient;
  }

  bool ReadsPart(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](TensorId id) { return parts_.contains(id); });
  }

  // All gradients that are complete in this program, unordered.
  std::vector<Summand> FindGradients() {
    std::vector<Summand> found;
    std::set<TensorId> others;  // without sums of their own: scattered, or carried in parts
    for (const Node& node : nodes_) {
      if (TakesPart(node)) {
        const TensorId whole = node.inputs[0], part = node.outputs[0];
        found.push_back({whole, LastWriter(whole), node.scope, part});
        parts_.insert(part);
        others.insert(whole);
      } else if (ReadsPart(node)) {
        others.insert(node.outputs.begin(), node.outputs.end());
      }
    }
    if (!trains_) return found;
    for (const auto& [parameter, gradient] : graph::GradientsOf(program_)) {
      if (others.contains(gradient)) continue;
      found.push_back({gradient, LastWriter(gradient), program_.tensor(parameter).name});
    }
    return found;
  }

  void FillBuckets(const DataParallelOptions& options) {
    std::vector<Summand> gradients = FindGradients();
    for (const Summand& summand : gradients) bytes_ += program_.tensor(summand.tensor).bytes();
    // Those on the host leave one by one, each to its place there.
    const int64_t small_bytes = gradients_on_host_ ? 0 : options.small_bytes;
    buckets_ = BucketsOf(program_, std::move(gradients), options.bucket_bytes, small_bytes);
  }

  // Keeps a node of the program. A node that reads a part waits until the part is summed.
  void Keep(Node node) {
    phase_ = node.phase;
    if (TakesPart(node)) return;
    if (node.phase != Phase::kUpdate && ReadsPart(node)) {
      waiting_.push_back(std::move(node));
      return;
    }
    if (node.phase == Phase::kUpdate) ReadSums(node);
    program_.mutable_nodes().push_back(std::move(node));
  }

  void ReadSums(Node& node) const {
    for (TensorId& id : node.inputs) id = graph::Substitute(reduced_, id);
  }

  TensorId AddTensor(TensorId like, const std::string& name, TensorId view_of) {
    Tensor tensor;
    tensor.name = program_.FreshName(name);
    tensor.type = program_.tensor(like).type;
    tensor.role = program_.tensor(like).role;
    if (view_of != kNoTensor) tensor.alias = graph::Alias{view_of, 0};
    return program_.AddTensor(std::move(tensor));
  }

  void Emit(const char* op, const std::string& scope, std::vector<TensorId> inputs,
            TensorId output) {
    Node node;
    node.op = &graph::OpRegistry::Get().Require(op);
    const graph::Shape& shape = program_.tensor(output).type.shape;
    if (node.op->name == "all_reduce_start") {
      node.attributes = ops::AlongAxis(kDataAxis);
      const std::optional<graph::Merge>& merge = program_.tensor(inputs[0]).merge;
      if (merge && merge->ranks == OverRanks::kMax) {
        node.attributes.Set(ops::kReduction, std::string(ops::kMaximum));
      }
    }
    if (node.op->name == "reduce_scatter_start" || node.op->name == "all_gather_start") {
      node.attributes = ops::AlongAxis(kDataAxis, shape);
    }
    if (node.op->name == "first_part") ops::SetShape(node.attributes, shape);
    node.inputs = std::move(inputs);
    node.outputs = {output};
    node.phase = phase_;
    node.scope = scope;
    node.made_by = "data_parallel";
    program_.mutable_nodes().push_back(std::move(node));
  }

  TensorId AddSum(const Summand& summand) {
    const TensorId like = summand.part != kNoTensor ? summand.part : summand.tensor;
    return sums_[summand.tensor] =
               AddTensor(like, program_.tensor(summand.tensor).name + ".sum", kNoTensor);
  }

  TensorId AddReduced(const Summand& summand) {
    const TensorId sum = sums_.at(summand.tensor);
    const std::string name = program_.tensor(summand.tensor).name + ".reduced";
    const TensorId read = summand.part != kNoTensor ? summand.part : summand.tensor;
    return reduced_[read] = AddTensor(sum, name, sum);
  }

  // Sums a carried tensor in place; a temporary gets a new tensor for the sum.
  void StartSum(const Summand& summand) {
    if (program_.tensor(summand.tensor).persistent) {
      sums_[summand.tensor] = summand.tensor;
    } else {
      AddSum(summand);
    }
    Emit("all_reduce_start", summand.scope, {summand.tensor}, sums_.at(summand.tensor));
  }

  void Start(Bucket& bucket) {
    for (const Summand& summand : bucket.scattered) {
      Emit("reduce_scatter_start", summand.scope, {summand.tensor}, AddSum(summand));
    }
    for (const Summand& summand : bucket.reduced) StartSum(summand);
    graph::Builder g = BuilderIn(nodes_[static_cast<size_t>(bucket.behind)].scope);
    for (Packed& packed : bucket.packed) {
      packed.sum = StartPackedSum(g, packed.gradients);
    }
  }

  void FinishPacked(const Packed& packed) {
    graph::Builder g = BuilderIn("");
    const std::vector<TensorId> sums = FinishPackedSum(g, packed.sum, packed.gradients);
    for (size_t i = 0; i < sums.size(); ++i) reduced_[packed.gradients[i]] = sums[i];
  }

  graph::Builder BuilderIn(const std::string& scope) {
    graph::Builder g(program_);
    g.set_phase(phase_);
    g.set_scope(scope);
    g.set_made_by("data_parallel");
    return g;
  }

  void FinishScattered(const Bucket& bucket) {
    for (const Summand& summand : bucket.scattered) {
      const TensorId sum = sums_.at(summand.tensor);
      Emit("reduce_scatter_done", summand.scope, {sum, summand.tensor}, AddReduced(summand));
    }
    for (const Summand& summand : bucket.scattered) {
      for (Node& node : waiting_) {
        if (std::ranges::find(node.inputs, summand.part) == node.inputs.end()) continue;
        ReadSums(node);
        program_.mutable_nodes().push_back(std::move(node));
      }
    }
  }

  // What need not wait for the update.
  void FinishEarly(const Bucket& bucket) {
    FinishScattered(bucket);
    FinishReduced(bucket, /*early=*/true);
  }

  void FinishReduced(const Bucket& bucket, bool early) {
    for (const Summand& summand : bucket.reduced) {
      if (early != (gradients_on_host_ && program_.tensor(summand.tensor).persistent)) continue;
      Emit("all_reduce_done", summand.scope, {sums_.at(summand.tensor)}, AddReduced(summand));
    }
  }

  void StartCarried(TensorId sum) {
    LastWriter(sum);
    StartSum({.tensor = sum});
  }

  // Nothing here reads a metric, but the program must not end before its sum has arrived.
  void FinishCarried(TensorId sum) {
    const TensorId reduced = AddReduced({.tensor = sum});
    program_.mutable_tensor(reduced).persistent = true;
    Emit("all_reduce_done", "", {sum}, reduced);
  }

  void StartFirst(TensorId pending) {
    LastWriter(pending);
    const TensorId all = AddTensor(pending, program_.tensor(pending).name + ".all", kNoTensor);
    program_.mutable_tensor(all).role = Role::kActivation;
    std::vector<int64_t> dims = {ranks_};
    std::ranges::copy(program_.tensor(pending).type.shape.dims(), std::back_inserter(dims));
    program_.mutable_tensor(all).type.shape = graph::Shape(dims);
    sums_[pending] = all;
    Emit("all_gather_start", "", {pending}, all);
  }

  void FinishFirst(TensorId pending) {
    const std::string name = program_.tensor(pending).name;
    const TensorId all = sums_.at(pending);
    const TensorId done = AddTensor(all, name + ".gathered", all);
    Emit("all_gather_done", "", {all, pending}, done);
    const TensorId first = reduced_[pending] = AddTensor(pending, name + ".first", done);
    program_.mutable_tensor(first).role = Role::kActivation;
    Emit("first_part", "", {done}, first);
  }

  Program& program_;
  const std::vector<Node> nodes_;  // the original nodes
  const int64_t ranks_;
  const bool gradients_on_host_;
  int update_ = 0;  // its first node, or the number of nodes
  bool trains_ = false;
  std::vector<TensorId> carried_, firsts_;  // empty when they are not complete
  std::vector<Bucket> buckets_;
  int64_t bytes_ = 0;
  std::set<TensorId> parts_;  // own parts of gradients
  // sums_: the sum of each summed tensor. reduced_: for each gradient or part that nodes read, the
  // tensor to read instead.
  std::map<TensorId, TensorId> sums_, reduced_;
  std::vector<Node> waiting_;  // until their parts are summed
  Phase phase_ = Phase::kForward;
};

}  // namespace

graph::PassResult DataParallel::Run(graph::Program& program) {
  return Reducer(program, options_).Run();
}

}  // namespace plimsoll::parallel
