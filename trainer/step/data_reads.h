// The order in which the program runs of a step read the step's data. A draw is one micro-batch of
// data. With accumulation, an objective that shares the data of an earlier objective reads the same
// draws again, from the first one.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {

class DataReads {
 public:
  DataReads() = default;
  // A run with the same draws as the run before it reads nothing, because the data is still in its
  // buffers.
  explicit DataReads(const StepPrograms& step);

  int64_t count() const {
    return count_;
  }  // number of reads in a step; at least the number of draws
  // The draw that read number `read` of a step reads, 0 ≤ read < count().
  int64_t DrawOf(int64_t read) const;

 private:
  // Consecutive reads of consecutive draws.
  struct Stretch {
    int64_t first_read, draw;
  };
  std::vector<Stretch> stretches_;
  int64_t count_ = 0;
};

}  // namespace plimsoll::trainer
