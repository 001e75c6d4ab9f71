// Data parallelism: every rank of the data axis trains on its part of the batch, and the gradients
// are summed among them before the update.
//
//   backward   %w.grad.sum = all_reduce_start(%w.grad)      behind the bucket's last writer
//   update     %w.grad.reduced = all_reduce_done(%w.grad.sum)   before the first node that reads
//              %norm = global_norm(%w.grad.reduced, …)
//
// A gradient of which a rank reads its own part alone (zero_state.h) is scattered instead, and soon
// gives up its memory:
//
//   backward   %w.grad.sum = reduce_scatter_start(%w.grad)
//              %w.grad.reduced = reduce_scatter_done(%w.grad.sum, %w.grad)   before the next bucket
//                                                                            but one starts
//
// The loss carries 1 / (targets of the whole step) on every rank, so that sums over ranks are those
// of one rank with the whole batch; the loss itself and other metrics are summed too.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::parallel {

struct DataParallelOptions {
  // Gradients leave together in buckets of at least so many bytes, in the order in which they are
  // ready: large enough for the links' full rate, small enough that the first leave early. A
  // function of model and mesh, so that it never changes numbers (PyTorch's bucket_cap_mb is 25).
  int64_t bucket_bytes = int64_t{25} << 20;
  // Carried sums over the data: the loss and other metrics that the host reads, and what an update
  // takes over of a model's states.
  std::vector<std::string> sums = {"loss"};
};

// Gradients carried from micro-step to micro-step are summed once, in the last, and so are the
// other sums of programs with an update, and of evaluation. What is read in parts is summed in
// every micro-step. Without a gradient or a sum of its own, a program stays as it is.
class DataParallel : public graph::Pass {
 public:
  explicit DataParallel(DataParallelOptions options = {}) : options_(std::move(options)) {}
  std::string_view name() const override { return "data_parallel"; }
  graph::PassResult Run(graph::Program& program) override;

 private:
  DataParallelOptions options_;
};

}  // namespace plimsoll::parallel
