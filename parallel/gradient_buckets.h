// Gradient buckets: a bucket is a set of gradients whose sums among the data ranks start together.
// Buckets are in the order in which the gradients are completed. The small gradients of a bucket
// are packed, and summed in one transfer: however few bytes it moves, a sum costs the time of its
// start on all ranks, and takes multiprocessors from the kernels that run at the same time.
//
//   backward   %gradients = pack(%a.grad, %b.grad)
//              %gradients.sum = all_reduce_start(%gradients)
//   update     %gradients.reduced = all_reduce_done(%gradients.sum)
//              %a.grad.reduced = slice(%gradients.reduced)
//              %b.grad.reduced = slice(%gradients.reduced)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "graph/program.h"

namespace plimsoll::parallel {

// A tensor that is summed among the ranks.
struct Summand {
  graph::TensorId tensor = graph::kNoTensor;
  size_t written = 0;  // index of the last node that writes the tensor
  std::string scope = {};
  graph::TensorId part = graph::kNoTensor;  // the tensor's own_part, if nodes read only this part
  graph::TensorId sum = graph::kNoTensor;   // the sum, once started

  graph::TensorId read() const { return part != graph::kNoTensor ? part : tensor; }
};

// Small gradients that share one sum.
struct Packed {
  std::vector<graph::TensorId> gradients;
  graph::TensorId sum = graph::kNoTensor;  // the sum, once started
};

// Gradients whose transfers start together: one transfer for each gradient in `scattered` or
// `reduced`, and one for each set of small gradients.
struct Bucket {
  size_t behind = 0;  // the index of the node after which the transfers start
  std::vector<Summand> scattered, reduced;
  std::vector<Packed> packed;
};

// Divides gradients into buckets of at least `bucket_bytes`, except the last bucket, in the order
// in which the gradients are written. Within a bucket, reduced gradients with fewer than
// `small_bytes` each share sums.
std::vector<Bucket> BucketsOf(const graph::Program& program, std::vector<Summand> gradients,
                              int64_t bucket_bytes, int64_t small_bytes);

// Emits the start of the sum of packed gradients, and returns the tensor that is being summed.
graph::Value StartPackedSum(graph::Builder& g, const std::vector<graph::TensorId>& gradients);

// Emits the end of a packed sum, and returns the slice of each gradient.
std::vector<graph::Value> FinishPackedSum(graph::Builder& g, graph::Value sum,
                                          const std::vector<graph::TensorId>& gradients);

}  // namespace plimsoll::parallel
