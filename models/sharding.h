// Sharding of parameters among tensor-parallel ranks: which part of an unsharded parameter each
// rank has. Only computes positions from a model's sharding table; the caller owns the data.
//
// Parameters have one or two dimensions. A part is contiguous within each of its blocks:
//
//   kRows, blocks {4, 2, 2}, rank 1 of 2:   rows 2-3 of the first block, then row 5, then row 7
//   kColumns, rank 1 of 2:                  the right half of every row
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/stripe.h"
#include "models/model.h"

namespace plimsoll::models {

class SplitParameter {
 public:
  // Throws InternalError unless the parameter can be divided equally among the ranks.
  SplitParameter(Sharding sharding, const graph::Shape& shape, int64_t ranks);

  Sharding::Split split() const { return sharding_.split; }
  const graph::Shape& shape() const { return shape_; }  // shape of the unsharded parameter
  graph::Shape LocalShape() const;                      // shape of a rank's part

  // The stripes of the unsharded parameter that, one after the other, are the rank's part.
  std::vector<Stripe> Stripes(int64_t rank) const;
  // Calls `copy(offset in the unsharded parameter, offset in the part, elements)` for each
  // contiguous piece of the rank's part.
  void ForPieces(int64_t rank, FunctionRef<void(int64_t, int64_t, int64_t)> copy) const;

  // Copies a rank's part into the unsharded parameter `whole`. `whole` has shape().elements(),
  // `part` LocalShape().elements().
  void PutPart(std::span<const float> part, int64_t rank, std::span<float> whole) const;

 private:
  Sharding sharding_;
  graph::Shape shape_;
  int64_t ranks_;
};

// The parameters that are split among `ranks` ranks, by name; empty for one rank.
std::map<std::string, SplitParameter> SplitParameters(const Model& model, int64_t ranks);

}  // namespace plimsoll::models
