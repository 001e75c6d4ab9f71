#include "models/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/glob.h"

namespace plimsoll::models {

using graph::Shape;

SplitParameter::SplitParameter(Sharding sharding, const Shape& shape, int64_t ranks)
    : sharding_(std::move(sharding)), shape_(shape), ranks_(ranks) {
  const bool columns = sharding_.split == Sharding::kColumns;
  std::vector<int64_t>& blocks = sharding_.blocks;
  if (blocks.empty()) blocks = {shape.dim(columns ? 1 : 0)};
  int64_t sum = 0;
  bool even = true;
  for (int64_t block : blocks) {
    sum += block;
    even = even && block % ranks == 0;
  }
  if (!even || sum != shape.dim(columns ? 1 : 0)) {
    throw InternalError(fmt::format("{} ranks cannot share '{}', {}, in blocks of {}", ranks,
                                    sharding_.pattern, shape.ToString(), fmt::join(blocks, ", ")));
  }
}

Shape SplitParameter::LocalShape() const {
  if (sharding_.split == Sharding::kColumns) return shape_.WithLast(shape_.dim(1) / ranks_);
  const int64_t rows = shape_.dim(0) / ranks_;
  return shape_.rank() == 1 ? Shape{rows} : Shape{rows, shape_.dim(1)};
}

std::vector<Stripe> SplitParameter::Stripes(int64_t rank) const {
  const int64_t columns = shape_.rank() == 1 ? 1 : shape_.dim(1);
  if (sharding_.split == Sharding::kColumns) {
    const int64_t own = columns / ranks_;
    return {{.first = rank * own,
             .width = own,
             .stride = columns,
             .skip = 0,
             .count = shape_.dim(0) * own}};
  }
  std::vector<Stripe> stripes;
  int64_t first = 0;  // first row of the block
  for (int64_t block : sharding_.blocks) {
    const int64_t own = block / ranks_;
    stripes.push_back(Stripe::Piece((first + rank * own) * columns, own * columns));
    first += block;
  }
  return stripes;
}

void SplitParameter::ForPieces(int64_t rank,
                               FunctionRef<void(int64_t, int64_t, int64_t)> copy) const {
  int64_t in_part = 0;
  for (const Stripe& stripe : Stripes(rank)) {
    for (int64_t i = 0; i < stripe.count; i += stripe.width) {
      copy(stripe.Number(i), in_part + i, stripe.width);
    }
    in_part += stripe.count;
  }
}

void SplitParameter::PutPart(std::span<const float> part, int64_t rank,
                             std::span<float> whole) const {
  ForPieces(rank, [&](int64_t to, int64_t from, int64_t count) {
    std::copy_n(part.begin() + from, count, whole.begin() + to);
  });
}

std::map<std::string, SplitParameter> SplitParameters(const Model& model, int64_t ranks) {
  std::map<std::string, SplitParameter> split;
  if (ranks == 1) return split;
  const std::vector<Sharding> table = model.sharding();
  for (const ParameterInfo& parameter : model.parameters()) {
    for (const Sharding& row : table) {
      if (!MatchesGlob(row.pattern, parameter.name)) continue;
      split.emplace(parameter.name, SplitParameter(row, parameter.shape, ranks));
      break;
    }
  }
  return split;
}

}  // namespace plimsoll::models
