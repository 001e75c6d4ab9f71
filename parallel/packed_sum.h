// Small gradients that the ranks of an axis sum in one transfer. A sum costs the time of its start
// on all ranks, and the kernels beside it multiprocessors meanwhile, however little it moves.
//
//   backward   %gradients = pack(%a.grad, %b.grad)
//              %gradients.sum = all_reduce_start(%gradients)
//   update     %gradients.reduced = all_reduce_done(%gradients.sum)
//              %a.grad.reduced = slice(%gradients.reduced)
//              %b.grad.reduced = slice(%gradients.reduced)
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "graph/program.h"

namespace plimsoll::parallel {

// The sets of several gradients, each of fewer bytes and all of one type, that can share a sum.
std::vector<std::vector<graph::TensorId>> SmallOfOneType(
    const graph::Program& program, const std::vector<graph::TensorId>& gradients, int64_t below);

// Emits the first half of a sum, and returns what is being summed.
graph::Value StartPackedSum(graph::Builder& g, const std::vector<graph::TensorId>& gradients,
                            std::string_view axis);

// Emits the second half, and returns the sum of each gradient.
std::vector<graph::Value> FinishPackedSum(graph::Builder& g, graph::Value sum,
                                          const std::vector<graph::TensorId>& gradients);

}  // namespace plimsoll::parallel
