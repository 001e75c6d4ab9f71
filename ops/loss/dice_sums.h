// The constants of the Dice loss's kernels, and how its sums are divided.
#pragma once

#include <cstdint>

#include "graph/op.h"

namespace plimsoll::ops {

// The number of voxels of one sample that are summed together. On a GPU a block of threads sums
// them.
inline constexpr int64_t kDiceChunk = 4096;

// A workspace holds a partial sum of each column for each chunk, then the sum of each column. The
// columns of a sample are I, G and P of each class, and the sum of −log p.
struct DiceSums {
  explicit DiceSums(const graph::Shape& logits)
      : samples(logits.dim(0)),
        classes(logits.dim(-1)),
        voxels(samples == 0 ? 0 : logits.rows() / samples),
        chunks((voxels + kDiceChunk - 1) / kDiceChunk),
        columns(3 * classes + 1) {}

  // The number of partial and of final sums.
  constexpr int64_t partials() const { return samples * columns * chunks; }
  constexpr int64_t totals() const { return samples * columns; }

  int64_t samples, classes;
  int64_t voxels, chunks, columns;  // per sample
};

template <typename T>
struct DiceTerms {
  explicit DiceTerms(const graph::Attributes& attributes)
      : first(attributes.GetBool("include_background") ? 0 : 1),
        squared(attributes.GetBool("squared_pred")),
        smooth_nr(static_cast<T>(attributes.GetReal("smooth_nr"))),
        smooth_dr(static_cast<T>(attributes.GetReal("smooth_dr"))),
        lambda_dice(static_cast<T>(attributes.GetReal("lambda_dice"))),
        lambda_ce(static_cast<T>(attributes.GetReal("lambda_ce"))) {}

  int first;  // the first class that counts
  bool squared;
  T smooth_nr, smooth_dr, lambda_dice, lambda_ce;
};

}  // namespace plimsoll::ops
