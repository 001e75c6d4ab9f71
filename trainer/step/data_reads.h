// The order in which the runs of a step read its draws of data. With accumulation an objective that
// has the data of an earlier one reads these draws once more, from the first one on.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {

class DataReads {
 public:
  DataReads() = default;
  // A run whose draws are those of the run before it finds them where they are, and reads nothing.
  explicit DataReads(const StepPrograms& step);

  int64_t count() const { return count_; }  // of a step; at least its draws
  // The draw of a step's read number `read`, 0 ≤ read < count().
  int64_t DrawOf(int64_t read) const;

 private:
  // Reads of one draw after the other.
  struct Stretch {
    int64_t first_read, draw;
  };
  std::vector<Stretch> stretches_;
  int64_t count_ = 0;
};

}  // namespace plimsoll::trainer
