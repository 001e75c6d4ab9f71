#include "parallel/zero_weights.h"

#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include "base/axes.h"
#include "base/bytes.h"
#include "base/glob.h"
#include "graph/builder.h"
#include "graph/step_shape.h"
#include "graph/tensor_ids.h"
#include "ops/collectives/collective.h"
#include "parallel/zero_shards.h"

namespace plimsoll::parallel {
namespace {

using graph::Builder;
using graph::kNoTensor;
using graph::Node;
using graph::Phase;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;

struct Weight {
  TensorId tensor;
  size_t read;  // the index of the first node that reads the weight
  TensorId own = kNoTensor;
};

TensorId TakeOwn(Builder& g, TensorId weight, int64_t ranks) {
  g.set_scope(g.program().tensor(weight).name);
  const TensorId own = ops::OwnPart(g, weight, kDataAxis, PartOf(g.shape(weight), ranks), "own");
  g.program().mutable_tensor(own).role = Role::kParameter;
  return own;
}

void Start(Builder& g, const Weight& weight) {
  g.set_scope(g.program().tensor(weight.tensor).name);
  g.EmitInto({weight.tensor}, "all_gather_start", {weight.own},
             ops::AlongAxis(kDataAxis, g.shape(weight.tensor)));
}

TensorId Finish(Builder& g, const Weight& weight) {
  g.set_scope(g.program().tensor(weight.tensor).name);
  const TensorId whole = g.Emit1("all_gather_done", {weight.tensor, weight.own}, {}, "whole");
  g.program().mutable_tensor(whole).role = Role::kParameter;
  return whole;
}

class Gatherer {
 public:
  Gatherer(Program& program, const ZeroWeightsOptions& options)
      : program_(program), options_(options), g_(program) {
    g_.set_made_by("zero_weights");
  }

  graph::PassResult Run() {
    FindWeights();
    std::vector<Node> nodes = std::exchange(program_.mutable_nodes(), {});
    TakeOwns(nodes);
    // Number of weights whose gathers have started, and have finished.
    size_t started = 0, finished = 0;
    for (size_t n = 0; n < nodes.size(); ++n) {
      Node& node = nodes[n];
      if (started < weights_.size() && !node.op->view) started = StartBucket(started);
      for (; finished < weights_.size() && weights_[finished].read == n; ++finished) {
        while (started <= finished) started = StartBucket(started);
        whole_[weights_[finished].tensor] = Finish(g_, weights_[finished]);
      }
      if (node.phase != Phase::kUpdate) {
        for (TensorId& id : node.inputs) id = graph::Substitute(whole_, id);
      }
      program_.mutable_nodes().push_back(std::move(node));
    }
    return {!weights_.empty(), fmt::format("{} of weights gathered among ranks, buckets: {}",
                                           FormatBytes(bytes_), buckets_)};
  }

 private:
  // Finds the weights, in the order in which they are read before the first update.
  void FindWeights() {
    const std::vector<Node>& nodes = program_.nodes();
    std::vector<bool> seen(program_.tensors().size(), false);
    const size_t update = graph::FirstUpdate(program_);
    for (size_t n = 0; n < update; ++n) {
      if (nodes[n].op->name == "own_part") continue;
      for (TensorId id : graph::Present(nodes[n].inputs)) {
        if (seen[id] || !IsDividedWeight(program_.tensor(id), options_.ranks) ||
            MatchesAnyGlob(options_.constant, program_.tensor(id).name)) {
          continue;
        }
        seen[id] = true;
        weights_.push_back({id, n});
      }
    }
  }

  // Finds this rank's shard of each weight: the view that the update writes, if the program has
  // one, or else a new view.
  void TakeOwns(const std::vector<Node>& nodes) {
    for (Weight& weight : weights_) {
      for (const Node& node : nodes) {
        const bool own = node.op->name == "own_part" && node.inputs[0] == weight.tensor;
        if (own) weight.own = node.outputs[0];
      }
      if (weight.own != kNoTensor) continue;
      weight.own = TakeOwn(g_, weight.tensor, options_.ranks);
    }
  }

  // Starts one bucket, and returns the index of the first weight after it.
  size_t StartBucket(size_t first) {
    int64_t bucket = 0;
    for (; first < weights_.size() && bucket < options_.bucket_bytes; ++first) {
      Start(g_, weights_[first]);
      bucket += program_.tensor(weights_[first].tensor).bytes();
    }
    bytes_ += bucket;
    ++buckets_;
    return first;
  }

  Program& program_;
  const ZeroWeightsOptions& options_;
  Builder g_;
  std::vector<Weight> weights_;
  // Maps a weight to the unsharded tensor that its readers read.
  std::map<TensorId, TensorId> whole_;
  int64_t bytes_ = 0;
  int buckets_ = 0;
};

}  // namespace

graph::PassResult ZeroWeights::Run(Program& program) { return Gatherer(program, options_).Run(); }

void EmitGathers(std::span<const Program* const> step, const ZeroWeightsOptions& options,
                 Program& program) {
  Builder g(program);
  std::vector<Weight> weights;
  for (const Program* of_step : step) {
    for (const Tensor& tensor : of_step->tensors()) {
      if (!IsDividedWeight(tensor, options.ranks)) continue;
      if (MatchesAnyGlob(options.constant, tensor.name)) continue;
      if (program.Find(tensor.name) != graph::kNoTensor) continue;
      const TensorId weight = g.Persistent(tensor.name, tensor.role, tensor.type, tensor.owner);
      weights.push_back({weight, 0, TakeOwn(g, weight, options.ranks)});
    }
  }
  for (const Weight& weight : weights) Start(g, weight);
  for (const Weight& weight : weights) Finish(g, weight);
}

}  // namespace plimsoll::parallel
