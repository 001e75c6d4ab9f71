// Synchronised batch norm (SyncBatchNorm), which sees the samples of all data ranks: two ranks
// compute what one would with both parts of the batch.
//
//   %mean, %variance = batch_norm_statistics(%x)
//   %means = all_gather(%mean)      %variances = all_gather(%variance)       [R,C]
//   %mean', %variance' = merge_batch_norm_statistics(%means, %variances)
//   %y = batch_norm(%x, %mean', %variance', …)
//
// All that read a rank's statistics, running ones among them, read the merged ones. Gradients come
// with the ops: that of all_gather is a reduce_scatter, so that a rank gets what all ranks' losses
// say of its statistics. The pass runs before autodiff.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/pass.h"

namespace plimsoll::parallel {

// Changes the statistics of whole micro-batches; those of groups of samples are of one rank.
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
