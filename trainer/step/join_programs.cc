#include "trainer/step/join_programs.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/error.h"
#include "graph/objective.h"
#include "parallel/rng_slots.h"

namespace plimsoll::trainer {

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
  const auto own = [shared = UpdateInputs(objectives_)](const graph::Tensor& tensor) {
    return tensor.role == graph::Role::kInput && !shared.contains(tensor.name);
  };
  std::map<std::vector<int>, int> made;  // maps the programs of micro-steps to their joined program
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
      if (fresh) known->second = Join(known->first, NameOf(next), Slice::kJoin, own);
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

std::string ProgramJoiner::NameOf(const StepEntry& entry) const {
  const bool begins = entry.micro_step == 0;
  return graph::OfObjective(objectives_[entry.updates.front().objective].name,
                            begins && entry.ends ? "train"
                            : begins             ? "train_begin"
                            : entry.ends         ? "train_end"
                                                 : "train_between");
}

int ProgramJoiner::Join(const std::vector<int>& programs, const std::string& name, Slice slice,
                        std::function<bool(const graph::Tensor&)> own) {
  std::vector<const Program*> next;
  for (const int program : programs) next.push_back(programs_[program].get());
  auto joined = std::make_shared<Program>(*next.front());
  joined->set_name(name);
  next.erase(next.begin());
  graph::PassPipeline passes = PassesOfJoined(options_, slice, std::move(next), std::move(own));
  run_(passes, *joined);
  programs_.push_back(std::move(joined));
  return static_cast<int>(std::ssize(programs_)) - 1;
}

bool ProgramJoiner::Joins(const StepEntry& before, const StepEntry& entry) const {
  const StepUpdate& next = entry.updates.front();
  if (!options_.join_updates || options_.accumulate > 1 || next.number > 0) return false;
  if (before.updates.back().objective + 1 != next.objective) return false;
  const std::string& data = objectives_[next.objective].data;
  const models::Objective& earlier = objectives_[next.objective - 1];
  return !data.empty() && (data == earlier.name || data == earlier.data);
}

void ProgramJoiner::JoinUpdates() {
  const auto own = [](const graph::Tensor& tensor) { return parallel::IsRngSlot(tensor.name); };
  std::vector<StepEntry> joined;
  for (StepEntry& entry : entries_) {
    if (joined.empty() || !Joins(joined.back(), entry)) {
      joined.push_back(std::move(entry));
      continue;
    }
    StepEntry& last = joined.back();
    last.program = Join({last.program, entry.program},
                        programs_[last.program]->name() + "+" + programs_[entry.program]->name(),
                        Slice::kUpdates, own);
    last.updates.push_back(entry.updates.front());
  }
  entries_ = std::move(joined);
  DropUnused();
}

void ProgramJoiner::DropUnused() {
  ProgramList programs;
  std::map<int, int> now;  // maps a program's old index to its new index
  for (StepEntry& entry : entries_) {
    const auto [there, fresh] =
        now.try_emplace(entry.program, static_cast<int>(std::ssize(programs)));
    if (fresh) programs.push_back(std::move(programs_[entry.program]));
    entry.program = there->second;
  }
  programs_ = std::move(programs);
}

}  // namespace plimsoll::trainer
