// Which samples of a micro-batch affect each other in training, for example through a batch norm.
#pragma once

#include <cstdint>

namespace plimsoll::models {

class SampleCoupling {
 public:
  // No sample affects another.
  static constexpr SampleCoupling Independent() { return SampleCoupling(1); }
  // Each group of `samples` consecutive samples is coupled; a micro-batch must have a multiple of
  // `samples`.
  static constexpr SampleCoupling Groups(int64_t samples) { return SampleCoupling(samples); }
  // All samples are coupled, so the size of a micro-batch changes the mathematics.
  static constexpr SampleCoupling WholeMicroBatch() { return SampleCoupling(0); }

  constexpr bool whole_micro_batch() const { return group_ == 0; }
  // The smallest micro-batch without a partial group; every micro-batch must be a multiple of it.
  constexpr int64_t smallest_micro_batch() const { return group_ == 0 ? 1 : group_; }

 private:
  explicit constexpr SampleCoupling(int64_t group) : group_(group) {}

  int64_t group_;  // the number of samples in a group; 0: all
};

}  // namespace plimsoll::models
