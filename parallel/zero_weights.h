// ZeRO, stages 1 and 2: every data rank keeps unsharded weights, but has updated only its own shard
// of them (zero_state.h). It gathers the other shards when the next step begins, not when the
// update ends, so that the forward pass hides the transfer:
//
//   forward    %w.own = own_part(%w)
//              %w = all_gather_start(%w.own)                   all of them at the top
//              …
//              %w.whole = all_gather_done(%w, %w.own)          before the first node that reads it
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::parallel {

struct ZeroWeightsOptions {
  int64_t ranks = 1;  // the number of data ranks
  // Weights are gathered in buckets of at least this size, in the order in which they are read. The
  // gathers of a bucket are awaited together. Before each of the program's first nodes, one bucket
  // starts, until all buckets have started.
  int64_t bucket_bytes = int64_t{25} << 20;
  // Patterns of weights that no update changes: every rank already has them unsharded.
  std::vector<std::string> constant = {};
};

// Runs on the program that begins a step, after ZeroState.
class ZeroWeights : public graph::Pass {
 public:
  explicit ZeroWeights(ZeroWeightsOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "zero_weights"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kDivided}, .spoils = graph::FactsFrom(graph::Fact::kReduced)};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  ZeroWeightsOptions options_;
};

// Adds nodes that gather the sharded parameters of `step`, the programs of training, so that
// weights can be read between two steps. As in ZeroWeights, constant weights are not gathered: a
// tensor that any program gathers is loaded in shards, and the next step would read old shards.
void EmitGathers(std::span<const graph::Program* const> step, const ZeroWeightsOptions& options,
                 graph::Program& program);

}  // namespace plimsoll::parallel
