#include "parallel/data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
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

namespace plimsoll::parallel {
namespace {

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
        builder_(program),
        ranks_(options.ranks),
        gradients_on_host_(options.gradients_on_host),
        at_update_(options.at_update),
        update_(graph::FirstUpdate(program)),
        trains_(update_ < nodes_.size()) {
    builder_.set_made_by("data_parallel");
    FillBuckets(options);
    if (!trains_ && HasGradients()) return;  // metrics are complete only in another program
    FindMerged();
  }

  graph::PassResult Run() {
    if (buckets_.empty() && carried_.empty() && firsts_.empty())
      return {false, "nothing to sum among ranks"};
    program_.mutable_nodes().clear();
    size_t started = 0, finished = 0;  // number of buckets started, and finished
    for (size_t n = 0; n <= nodes_.size(); ++n) {
      if (n == update_) {
        if (at_update_) builder_.set_phase(Phase::kUpdate);
        for (; at_update_ && started < buckets_.size(); ++started) Start(buckets_[started]);
        for (Summand& carried : carried_) StartSum(carried);
        for (Summand& pending : firsts_) StartFirst(pending);
        while (finished < buckets_.size()) FinishEarly(buckets_[finished++]);
        if (trains_) builder_.set_phase(Phase::kUpdate);
        for (const Bucket& bucket : buckets_) {
          FinishReduced(bucket, /*early=*/false);
          for (const Packed& packed : bucket.packed) FinishPacked(packed);
        }
        for (const Summand& carried : carried_) FinishCarried(carried);
        for (const Summand& pending : firsts_) FinishFirst(pending);
      }
      if (n == nodes_.size()) break;
      Keep(nodes_[n]);
      if (at_update_) continue;
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
  // Finds the metrics and pending states to be summed, metrics first.
  void FindMerged() {
    std::vector<Summand> states;
    for (const TensorId id : graph::TensorIds(program_)) {
      const Tensor& tensor = program_.tensor(id);
      if (!tensor.merge) continue;
      const OverRanks over = tensor.merge->ranks;
      if (over == OverRanks::kSame || over == OverRanks::kOwn) continue;
      std::vector<Summand>& summed = tensor.role == Role::kMetric ? carried_ : states;
      (over == OverRanks::kFirst ? firsts_ : summed).push_back({id, LastWriter(id)});
    }
    std::ranges::copy(states, std::back_inserter(carried_));
  }

  size_t LastWriter(TensorId tensor) const {
    for (size_t n = update_; n-- > 0;) {
      if (std::ranges::count(nodes_[n].outputs, tensor) > 0) return n;
    }
    throw InternalError("data_parallel: nothing writes '" + program_.tensor(tensor).name + "'");
  }

  bool HasGradients() const {
    return std::ranges::count(program_.tensors(), Role::kGradient, &Tensor::role) > 0;
  }

  bool TakesPart(const Node& node) const {
    return node.op->name == "own_part" && program_.tensor(node.inputs[0]).role == Role::kGradient;
  }

  bool ReadsPart(const Node& node) const {
    return std::ranges::any_of(node.inputs, [&](TensorId id) { return parts_.contains(id); });
  }

  // All gradients that are complete in this program, unordered.
  std::vector<Summand> FindGradients() {
    std::vector<Summand> found;
    std::set<TensorId> others;  // gradients that are scattered or carried in parts
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
    // Gradients on the host are evicted one by one, so they are not packed.
    const int64_t small_bytes = gradients_on_host_ ? 0 : options.small_bytes;
    buckets_ = BucketsOf(program_, std::move(gradients), options.bucket_bytes, small_bytes);
  }

  // Keeps a node of the program. If the node reads a part of a gradient, it is emitted only after
  // the part is summed.
  void Keep(Node node) {
    builder_.set_phase(node.phase);
    if (TakesPart(node)) return;
    if (node.phase != Phase::kUpdate && ReadsPart(node)) {
      waiting_.push_back(std::move(node));
      return;
    }
    if (node.phase == Phase::kUpdate) ReadSums(node);
    program_.mutable_nodes().push_back(std::move(node));
  }

  // Makes the node read sums instead of the tensors that were summed. A node that ends another
  // axis's sum keeps its first input, which the start of that sum writes.
  void ReadSums(Node& node) const {
    const size_t made = ops::IsCollectiveDone(*node.op) ? 1 : 0;
    for (size_t i = made; i < node.inputs.size(); ++i) {
      node.inputs[i] = graph::Substitute(reduced_, node.inputs[i]);
    }
  }

  // Emits a node that writes an existing tensor.
  void Emit(std::string_view op, const std::string& scope, std::vector<TensorId> inputs,
            TensorId output, graph::Attributes attributes = {}) {
    builder_.set_scope(scope);
    builder_.EmitInto({output}, op, std::move(inputs), std::move(attributes));
  }

  TensorId AddSum(Summand& summand) {
    const std::string name = program_.tensor(summand.tensor).name + ".sum";
    return summand.sum = builder_.Like(summand.read(), name);
  }

  TensorId AddReduced(const Summand& summand) {
    const std::string name = program_.tensor(summand.tensor).name + ".reduced";
    return reduced_[summand.read()] = builder_.Like(summand.sum, name, summand.sum);
  }

  // Sums a carried tensor in place; a temporary gets a new tensor for the sum.
  void StartSum(Summand& summand) {
    if (program_.tensor(summand.tensor).persistent) {
      summand.sum = summand.tensor;
    } else {
      AddSum(summand);
    }
    graph::Attributes attributes = ops::AlongAxis(kDataAxis);
    const std::optional<graph::Merge>& merge = program_.tensor(summand.tensor).merge;
    if (merge && merge->ranks == OverRanks::kMax) {
      attributes.Set(ops::kReduction, std::string(ops::kMaximum));
    }
    Emit("all_reduce_start", summand.scope, {summand.tensor}, summand.sum, std::move(attributes));
  }

  void Start(Bucket& bucket) {
    for (Summand& summand : bucket.scattered) {
      const TensorId sum = AddSum(summand);
      Emit("reduce_scatter_start", summand.scope, {summand.tensor}, sum,
           ops::AlongAxis(kDataAxis, builder_.shape(sum)));
    }
    for (Summand& summand : bucket.reduced) StartSum(summand);
    builder_.set_scope(nodes_[bucket.behind].scope);
    for (Packed& packed : bucket.packed) {
      packed.sum = StartPackedSum(builder_, packed.gradients);
    }
  }

  void FinishPacked(const Packed& packed) {
    builder_.set_scope("");
    const std::vector<TensorId> sums = FinishPackedSum(builder_, packed.sum, packed.gradients);
    for (size_t i = 0; i < sums.size(); ++i) reduced_[packed.gradients[i]] = sums[i];
  }

  void FinishScattered(const Bucket& bucket) {
    for (const Summand& summand : bucket.scattered) {
      Emit("reduce_scatter_done", summand.scope, {summand.sum, summand.tensor},
           AddReduced(summand));
    }
    for (const Summand& summand : bucket.scattered) {
      for (Node& node : waiting_) {
        if (std::ranges::find(node.inputs, summand.part) == node.inputs.end()) continue;
        ReadSums(node);
        program_.mutable_nodes().push_back(std::move(node));
      }
    }
  }

  // Ends the sums of a bucket that can end before the update.
  void FinishEarly(const Bucket& bucket) {
    FinishScattered(bucket);
    FinishReduced(bucket, /*early=*/true);
  }

  void FinishReduced(const Bucket& bucket, bool early) {
    for (const Summand& summand : bucket.reduced) {
      if (early != (gradients_on_host_ && program_.tensor(summand.tensor).persistent)) continue;
      Emit("all_reduce_done", summand.scope, {summand.sum}, AddReduced(summand));
    }
  }

  // Ends the sum of a metric that no node reads, because the program must not end before the sum
  // has arrived.
  void FinishCarried(const Summand& carried) {
    const TensorId reduced = AddReduced(carried);
    program_.mutable_tensor(reduced).persistent = true;
    Emit("all_reduce_done", "", {carried.sum}, reduced);
  }

  void StartFirst(Summand& pending) {
    pending.sum = builder_.Like(pending.tensor, program_.tensor(pending.tensor).name + ".all");
    Tensor& all = program_.mutable_tensor(pending.sum);
    all.role = Role::kActivation;
    std::vector<int64_t> dims = {ranks_};
    std::ranges::copy(all.type.shape.dims(), std::back_inserter(dims));
    all.type.shape = graph::Shape(dims);
    Emit("all_gather_start", "", {pending.tensor}, pending.sum,
         ops::AlongAxis(kDataAxis, all.type.shape));
  }

  void FinishFirst(const Summand& pending) {
    const std::string name = program_.tensor(pending.tensor).name;
    const TensorId done = builder_.Like(pending.sum, name + ".gathered", pending.sum);
    Emit("all_gather_done", "", {pending.sum, pending.tensor}, done);
    const TensorId first = builder_.Like(pending.tensor, name + ".first", done);
    program_.mutable_tensor(first).role = Role::kActivation;
    reduced_[pending.tensor] = first;
    graph::Attributes attributes;
    ops::SetShape(attributes, builder_.shape(first));
    Emit("first_part", "", {done}, first, std::move(attributes));
  }

  Program& program_;
  const std::vector<Node> nodes_;  // the original nodes
  graph::Builder builder_;
  const int64_t ranks_;
  const bool gradients_on_host_;
  const bool at_update_;
  const size_t update_;  // the index of the first node of the update, or the number of nodes
  const bool trains_;
  std::vector<Summand> carried_, firsts_;  // empty in programs that do not complete them
  std::vector<Bucket> buckets_;
  int64_t bytes_ = 0;
  std::set<TensorId> parts_;              // this rank's parts of gradients
  std::map<TensorId, TensorId> reduced_;  // maps a tensor to the sum that nodes read instead
  std::vector<Node> waiting_;             // nodes that wait until the parts that they read are
                                          // summed
};

}  // namespace

graph::PassResult DataParallel::Run(graph::Program& program) {
  return Reducer(program, options_).Run();
}

}  // namespace plimsoll::parallel
