// Data parallelism with gradient buckets: every rank of the data axis trains on its part of the
// batch, and the ranks sum their gradients before the update.
//
//   backward   %w.grad.sum = all_reduce_start(%w.grad)      after the bucket's last writer
//   update     %w.grad.reduced = all_reduce_done(%w.grad.sum)   before the first node that reads
//              %norm = global_norm(%w.grad.reduced, …)
//
// If a rank reads only its own part of a gradient (zero_state.h), the gradient is reduce-scattered
// instead, and the unsharded gradient's memory is freed soon:
//
//   backward   %w.grad.sum = reduce_scatter_start(%w.grad)
//              %w.grad.reduced = reduce_scatter_done(%w.grad.sum, %w.grad)   before the next bucket
//                                                                            but one starts
//
// The small gradients of a bucket share one sum if they are summed unsharded (gradient_buckets.h).
//
// A pending state may be decided by the first rank. All nodes that read it then read the first
// rank's part of the gathered state:
//
//   forward    %all = all_gather_start(%state.pending)
//   update     %all.done = all_gather_done(%all, %state.pending)
//              %first = first_part(%all.done)
//
// The loss contains the factor 1 / (targets of the complete step) on every rank, so that sums over
// ranks equal those of one rank with the complete batch. Other tensors of the program say whether
// they are summed (graph::Merge): the loss and other metrics that the host reads, and pending
// states. A maximum over ranks is an all_reduce_start with {reduction="max"}.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::parallel {

struct DataParallelOptions {
  // Gradients are sent in buckets of at least this size, in the order in which they are completed.
  // The size is large enough for the links' full rate, and small enough that the first bucket is
  // sent early. The buckets depend only on model and mesh, so that they never change numbers
  // (PyTorch's bucket_cap_mb is 25).
  int64_t bucket_bytes = int64_t{25} << 20;
  // Gradients of one bucket that have fewer bytes than this are summed together. These gradients
  // wait for one another, so optim::UpdateInBackward does not move their updates.
  int64_t small_bytes = int64_t{256} << 10;
  int64_t ranks = 1;
  // Whether carried gradients live on the host. The sums of unsharded gradients then end as early
  // as the sums of sharded gradients, so that each gradient is evicted again before the update.
  bool gradients_on_host = false;
  // Whether all sums start at the update: programs are cut there (graph/phase_cut.h), and no
  // transfer may cross the cut.
  bool at_update = false;
};

// Gradients that are carried from micro-step to micro-step are summed once, in the last micro-step;
// so are the other sums of programs with an update and of evaluation. Gradients that are read in
// parts are summed in every micro-step. A program without gradients or sums stays unchanged.
class DataParallel : public graph::Pass {
 public:
  explicit DataParallel(DataParallelOptions options = {}) : options_(std::move(options)) {}
  std::string_view name() const override { return "data_parallel"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kTyped},
            .gives = {graph::Fact::kReduced},
            .spoils = graph::FactsFrom(graph::Fact::kPlaced)};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  DataParallelOptions options_;
};

}  // namespace plimsoll::parallel
