// Which samples of a micro-batch act on one another in training, as through a batch norm.
#pragma once

#include <cstdint>

namespace plimsoll::models {

class SampleCoupling {
 public:
  // No sample acts on another.
  static constexpr SampleCoupling Independent() { return SampleCoupling(1); }
  // Each `samples` consecutive samples do; the size of a micro-batch is a multiple of `samples`.
  static constexpr SampleCoupling Groups(int64_t samples) { return SampleCoupling(samples); }
  // All samples do, so that the size of a micro-batch changes the mathematics.
  static constexpr SampleCoupling WholeMicroBatch() { return SampleCoupling(0); }

  constexpr bool whole_micro_batch() const { return group_ == 0; }
  // Every micro-batch without a part of a group has a multiple of that number of samples.
  constexpr int64_t smallest_micro_batch() const { return group_ == 0 ? 1 : group_; }

 private:
  explicit constexpr SampleCoupling(int64_t group) : group_(group) {}

  int64_t group_;  // the samples of a group; 0: all
};

}  // namespace plimsoll::models
