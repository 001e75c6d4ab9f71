#include "trainer/step/step_programs.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll::trainer {

int64_t StepPrograms::runs() const {
  int64_t runs = 0;
  for (const StepEntry& entry : entries) runs += entry.times;
  return runs;
}

StepRun StepPrograms::At(int64_t run) const {
  int64_t begin = 0;
  for (const StepEntry& entry : entries) {
    if (run >= begin && run < begin + entry.times) {
      const int64_t at = run - begin;
      return {.program = entry.program,
              .micro_step = entry.micro_step + at,
              .updates = entry.updates,
              .objective = entry.objective,
              .update = entry.update,
              .draw = entry.draw + at};
    }
    begin += entry.times;
  }
  throw InternalError("a step has no such run");
}

bool StepPrograms::Runs(int program) const {
  return std::ranges::find(entries, program, &StepEntry::program) != entries.end();
}

int64_t DrawsOf(std::span<const models::Objective> objectives, int64_t accumulate) {
  int64_t draws = 0;
  for (const models::Objective& objective : objectives) {
    if (objective.data.empty()) draws += objective.updates * accumulate;
  }
  return draws;
}

}  // namespace plimsoll::trainer
