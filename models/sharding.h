// Sharding of parameters among tensor-parallel ranks: which part of a whole parameter belongs to
// which rank. Pure functions of a model's sharding table; the caller keeps the numbers themselves.
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
  // InternalError unless the ranks can share it equally.
  SplitParameter(Sharding sharding, const graph::Shape& shape, int64_t ranks);

  Sharding::Split split() const { return sharding_.split; }
  const graph::Shape& shape() const { return shape_; }  // of the whole
  graph::Shape LocalShape() const;                      // of each part

  // The rank's part, whose elements are those of the stripes, one after the other, of the whole.
  std::vector<Stripe> Stripes(int64_t rank) const;
  // Calls `copy(in whole, in part, elements)` for each contiguous piece of the rank's part.
  void ForPieces(int64_t rank, FunctionRef<void(int64_t, int64_t, int64_t)> copy) const;

  // `whole` and `part` have shape().elements() and LocalShape().elements().
  void PutPart(std::span<const float> part, int64_t rank, std::span<float> whole) const;

 private:
  Sharding sharding_;
  graph::Shape shape_;
  int64_t ranks_;
};

// The parameters that `ranks` ranks share, by name; empty for one rank.
std::map<std::string, SplitParameter> SplitParameters(const Model& model, int64_t ranks);

}  // namespace plimsoll::models
