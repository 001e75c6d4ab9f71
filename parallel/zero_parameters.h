// ZeRO, stage 3: each data rank carries only its own shard of a sharded parameter. The unsharded
// parameter is a temporary that is gathered before it is read:
//
//   forward    %w.gathered = all_gather_start(%w)
//              %w.whole = all_gather_done(%w.gathered, %w)     before the first node that reads it
//   update     %w, %w.m, … = adamw(%w, …)                      the part itself
//
// The passes of checkpointing/ treat the unsharded parameter as any other activation: it is kept
// for the backward pass, or gathered again for it.
#pragma once

#include <cstdint>

#include "graph/pass.h"

namespace plimsoll::parallel {

// Runs on all programs that read parameters, after ZeroState.
class ZeroParameters : public graph::Pass {
 public:
  explicit ZeroParameters(int64_t ranks) : ranks_(ranks) {}
  std::string_view name() const override { return "zero_parameters"; }
  graph::Contract contract() const override {
    return {.gives = {graph::Fact::kGathered}, .spoils = graph::FactsFrom(graph::Fact::kReduced)};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  int64_t ranks_;
};

// Prefetches parameters: in the forward pass and again in the backward pass, the gathers of a block
// (graph/block.h) start where the program waits for the previous block's gathers. So the work of a
// block hides the transfer for the next block, and at most two blocks are unsharded at a time.
// Codes that are gathered in place of a parameter (parallel/gather_codes.h) are made where their
// gather starts. Runs after all passes that add, remove or join nodes.
class PrefetchParameters : public graph::Pass {
 public:
  std::string_view name() const override { return "prefetch_parameters"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kGathered},
            .gives = {graph::Fact::kPrefetched},
            .spoils = {graph::Fact::kMoved, graph::Fact::kResident, graph::Fact::kByLoss,
                       graph::Fact::kScratched},
            .keeps_numbers = true};
  }
  graph::PassResult Run(graph::Program& program) override;
};

// Lets micro-steps that compute a block one after another read one gathered parameter. A gather is
// removed if it starts while the result of an earlier gather of the same parameter still has
// readers. The codes that were made for the removed gather (parallel/gather_codes.h) are removed,
// too. Runs after BlocksFirst (graph/step_passes.h).
class JoinGathers : public graph::Pass {
 public:
  std::string_view name() const override { return "join_gathers"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kGathered, graph::Fact::kOrdered},
            .spoils = {graph::Fact::kMoved, graph::Fact::kResident, graph::Fact::kScratched},
            .keeps_numbers = true};
  }
  graph::PassResult Run(graph::Program& program) override;
};

}  // namespace plimsoll::parallel
