// What fusions share that let the op which makes a tensor write the tensor's 8-bit codes instead
// (ops/fusions.h).
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

// An argument of a node, kNoTensor where it is absent.
inline graph::TensorId ArgumentAt(const std::vector<graph::TensorId>& arguments, size_t i) {
  return i < arguments.size() ? arguments[i] : graph::kNoTensor;
}

// A tensor y that is read as codes alone:
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
  graph::TensorId largest;  // kNoTensor: `quantize` alone reads it
};

// Replaces such three nodes by one at the maker's position, which `fuse` makes unless the maker is
// none of its ops. Nodes stay if codes cannot be made that early, since what `quantize` reads or
// writes is accessed in between. Returns how many nodes `fuse` has made.
int FuseCodes(graph::Program& program,
              const std::function<std::optional<graph::Node>(const ReadAsCodes&)>& fuse);

}  // namespace plimsoll::ops
