// Synchronised batch norm (SyncBatchNorm): its statistics include the samples of all data ranks.
// Two ranks compute what one rank would compute with both ranks' samples.
//
//   %mean, %variance = batch_norm_statistics(%x)
//   %means = all_gather(%mean)      %variances = all_gather(%variance)       [R,C]
//   %mean', %variance' = merge_batch_norm_statistics(%means, %variances)
//   %y = batch_norm(%x, %mean', %variance', …)
//
// All nodes that read a rank's statistics, including the running ones, read the merged statistics
// instead. Gradients follow from the ops: the gradient of all_gather is a reduce_scatter, so that a
// rank gets the gradients of its statistics from all ranks' losses. The pass runs before autodiff.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/pass.h"

namespace plimsoll::parallel {

// Changes the statistics of complete micro-batches; statistics of groups of samples stay those of
// one rank.
class SyncNorm : public graph::Pass {
 public:
  explicit SyncNorm(int64_t ranks) : ranks_(ranks) {}
  std::string_view name() const override { return "sync_norm"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kTyped},
            .spoils = graph::FactsFrom(graph::Fact::kDifferentiated)};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  int64_t ranks_;
};

}  // namespace plimsoll::parallel
