#include "trainer/step/step_programs.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "graph/objective.h"

namespace plimsoll::trainer {
namespace {

// The number of micro-steps that runs of the entry begin.
int64_t MicroStepsOf(const StepEntry& entry) {
  if (!BeginsMicroSteps(entry.action)) return 0;
  return entry.times * entry.micro_steps * std::ssize(entry.updates);
}

}  // namespace

std::vector<int> OrderOfRuns(std::span<const StepEntry> entries) {
  std::vector<int> order;
  for (const StepEntry& entry : entries) {
    order.insert(order.end(), static_cast<size_t>(entry.times), entry.program);
  }
  return order;
}

int64_t StepPrograms::runs() const {
  int64_t runs = 0;
  for (const StepEntry& entry : entries) runs += entry.times;
  return runs;
}

int64_t StepPrograms::micro_steps() const {
  int64_t micro_steps = 0;
  for (const StepEntry& entry : entries) micro_steps += MicroStepsOf(entry);
  return micro_steps;
}

StepRun StepPrograms::At(int64_t run) const {
  int64_t begin = 0, number = 0;
  for (const StepEntry& entry : entries) {
    if (run >= begin && run < begin + entry.times) {
      const int64_t at = (run - begin) * entry.micro_steps;
      return {.program = entry.program,
              .micro_steps = entry.micro_steps,
              .micro_step = entry.micro_step + at,
              .ends = entry.ends,
              .updates = entry.updates,
              .draw = entry.draw + at,
              .number = BeginsMicroSteps(entry.action) ? number + at : entry.micro_step + at,
              .action = entry.action,
              .slot = entry.slot,
              .receives = entry.receives,
              .sends = entry.sends};
    }
    begin += entry.times;
    number += MicroStepsOf(entry);
  }
  throw InternalError("a step has no such run");
}

bool StepPrograms::Runs(int program) const {
  return std::ranges::find(entries, program, &StepEntry::program) != entries.end();
}

bool StepPrograms::ReadsData(int program) const {
  return Runs(program) || std::ranges::find(evaluations, program) != evaluations.end();
}

int64_t DrawsOf(std::span<const models::Objective> objectives, int64_t accumulate) {
  int64_t draws = 0;
  for (const models::Objective& objective : objectives) {
    if (objective.data.empty()) draws += objective.updates * accumulate;
  }
  return draws;
}

std::set<std::string, std::less<>> UpdateInputs(std::span<const models::Objective> objectives) {
  std::set<std::string, std::less<>> names;
  for (const models::Objective& objective : objectives) {
    for (const char* input : {"token_weight", "sample_weight", "lr", "loss_limit"}) {
      names.insert(graph::OfObjective(objective.name, input));
    }
  }
  return names;
}

}  // namespace plimsoll::trainer
