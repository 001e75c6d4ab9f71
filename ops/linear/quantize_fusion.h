// Code that several fusions share. They let the op that makes a tensor write the tensor's 8-bit
// codes instead (ops/fusions.h).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "graph/program.h"

namespace plimsoll::ops {

// Arguments of the op `quantize` (ops/linear/quantize.h).
namespace quantize {
enum Input : size_t { kX, kLargest, kAccSums, kExpected };
enum Output : size_t { kTransposed, kCodes, kScale, kSums };
}  // namespace quantize

// An argument of a node; kNoTensor if it is absent.
inline graph::TensorId ArgumentAt(const std::vector<graph::TensorId>& arguments, size_t i) {
  return i < arguments.size() ? arguments[i] : graph::kNoTensor;
}

// A tensor y that is only read as codes:
//
//   …, y, … = MAKER(…)
//   largest = largest_magnitude(y)
//   transposed, codes, scale, sums = quantize(y, largest, acc_sums, expected)
//
// y is a temporary tensor without other readers, and has a scale that is expected from earlier
// steps. All three nodes are in one phase.
struct ReadAsCodes {
  const graph::Node& maker;
  const graph::Node& quantize;
  graph::TensorId y;
  graph::TensorId largest;  // kNoTensor if only `quantize` reads the magnitude
};

// Replaces three such nodes by one at the maker's position. `fuse` makes the new node, or returns
// nullopt if it does not handle the maker's op. Nodes stay if codes cannot be made that early,
// because nodes in between access what `quantize` reads or writes. Returns the number of new nodes.
int FuseCodes(graph::Program& program,
              const std::function<std::optional<graph::Node>(const ReadAsCodes&)>& fuse);

}  // namespace plimsoll::ops
