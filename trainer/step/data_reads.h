// The order in which the runs of a step read its draws of data (a draw is one micro-batch). With
// accumulation, an objective that shares the data of an earlier one reads these draws again, from
// the first.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {

class DataReads {
 public:
  DataReads() = default;
  // A run with the draws of the run before it reads nothing: the data is still in place.
  explicit DataReads(const StepPrograms& step);

  int64_t count() const { return count_; }  // number of reads in a step; at least its draws
  // The draw of a step's read number `read`, 0 ≤ read < count().
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
