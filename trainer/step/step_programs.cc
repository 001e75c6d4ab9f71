#include "trainer/step/step_programs.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll::trainer {

int64_t StepPrograms::runs() const {
  int64_t runs = 0;
  for (const StepEntry& entry : entries) runs += entry.times;
  return runs;
}

const StepEntry& StepPrograms::At(int64_t run) const {
  int64_t end = 0;
  for (const StepEntry& entry : entries) {
    end += entry.times;
    if (run >= 0 && run < end) return entry;
  }
  throw InternalError("a step has no such run");
}

bool StepPrograms::Runs(int program) const {
  return std::ranges::find(entries, program, &StepEntry::program) != entries.end();
}

}  // namespace plimsoll::trainer
