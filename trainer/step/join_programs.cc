#include "trainer/step/join_programs.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/error.h"
#include "graph/objective.h"
#include "trainer/step/passes.h"

namespace plimsoll::trainer {

using graph::PassPipeline;
using graph::Program;

void ProgramJoiner::JoinMicroSteps() {
  const int64_t count = options_.accumulate, together = options_.micro_steps_per_program;
  if (count % together != 0) {
    throw InternalError(
        fmt::format("programs of {} micro-steps for updates of {}", together, count));
  }
  if (options_.blocks_first && together != count) {
    throw InternalError("blocks come first only where one program holds all micro-steps");
  }
  if (together == 1) return;
  std::map<std::vector<int>, int> made;  // programs, by those of their micro-steps
  std::vector<StepEntry> joined;
  std::vector<int> micro_steps;
  StepEntry next;
  for (const StepEntry& entry : entries_) {
    for (int64_t i = 0; i < entry.times; ++i) {
      if (micro_steps.empty()) {
        next = entry;
        next.times = 1;
        next.micro_step += i;
        next.draw += i;
        next.micro_steps = together;
      }
      micro_steps.push_back(entry.program);
      if (std::ssize(micro_steps) < together) continue;
      next.ends = entry.ends;
      const auto [known, fresh] = made.try_emplace(std::exchange(micro_steps, {}));
      if (fresh) known->second = JoinedOf(known->first, next);
      next.program = known->second;
      if (!joined.empty() && next.micro_step > 0 && joined.back().program == next.program) {
        ++joined.back().times;
      } else {
        joined.push_back(next);
      }
    }
  }
  entries_ = std::move(joined);
  DropUnused();
}

int ProgramJoiner::JoinedOf(const std::vector<int>& micro_steps, const StepEntry& entry) {
  std::vector<const Program*> following;
  for (const int program : micro_steps) following.push_back(programs_[program].get());
  auto program = std::make_shared<Program>(*following.front());
  following.erase(following.begin());
  const bool begins = entry.micro_step == 0;
  program->set_name(graph::OfObjective(objectives_[entry.updates.front().objective].name,
                                       begins && entry.ends ? "train"
                                       : begins             ? "train_begin"
                                       : entry.ends         ? "train_end"
                                                            : "train_between"));
  PassPipeline passes = PassesOfJoined(options_, objectives_, std::move(following));
  run_(passes, *program);
  programs_.push_back(std::move(program));
  return static_cast<int>(std::ssize(programs_)) - 1;
}

bool ProgramJoiner::Joins(const StepEntry& before, const StepEntry& entry) const {
  const StepUpdate& next = entry.updates.front();
  return next.number == 0 && before.updates.back().objective + 1 == next.objective &&
         JoinsUpdate(options_, objectives_[next.objective - 1], objectives_[next.objective]);
}

void ProgramJoiner::JoinUpdates() {
  std::vector<StepEntry> joined;
  for (StepEntry& entry : entries_) {
    if (joined.empty() || !Joins(joined.back(), entry)) {
      joined.push_back(std::move(entry));
      continue;
    }
    StepEntry& last = joined.back();
    const Program& program = *programs_[entry.program];
    auto both = std::make_shared<Program>(*programs_[last.program]);
    both->set_name(both->name() + "+" + program.name());
    PassPipeline passes = PassesOfUpdates(options_, {&program});
    run_(passes, *both);
    programs_.push_back(std::move(both));
    last.program = static_cast<int>(std::ssize(programs_)) - 1;
    last.updates.push_back(entry.updates.front());
  }
  entries_ = std::move(joined);
  DropUnused();
}

void ProgramJoiner::DropUnused() {
  ProgramList programs;
  std::map<int, int> now;  // the programs' indices
  for (StepEntry& entry : entries_) {
    const auto [there, fresh] =
        now.try_emplace(entry.program, static_cast<int>(std::ssize(programs)));
    if (fresh) programs.push_back(std::move(programs_[entry.program]));
    entry.program = there->second;
  }
  programs_ = std::move(programs);
}

}  // namespace plimsoll::trainer
