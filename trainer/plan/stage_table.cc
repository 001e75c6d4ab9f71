#include "trainer/plan/stage_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/axes.h"
#include "base/bytes.h"
#include "trainer/step/stage_schedule.h"

namespace plimsoll::trainer {
namespace {

// Of a run of each kind, on average.
StageSeconds SecondsOf(const CompiledStep& compiled, const memory::CostModel& cost) {
  StageSeconds seconds;
  double forwards = 0, backwards = 0;
  for (const StepEntry& entry : compiled.step.entries) {
    const double run = cost.ProgramSeconds(*compiled.programs[static_cast<size_t>(entry.program)]);
    if (entry.action == StepAction::kForward) {
      seconds.forward += run;
      ++forwards;
    } else if (entry.action == StepAction::kUpdate) {
      seconds.update += run;
    } else {
      seconds.backward += run;
      ++backwards;
    }
  }
  if (forwards > 0) seconds.forward /= forwards;
  if (backwards > 0) seconds.backward /= backwards;
  return seconds;
}

}  // namespace

StageTable::StageTable(const models::Model& model, const CompiledStep& first,
                       const memory::CostModel& cost)
    : micro_batches_(first.options.accumulate) {
  const Mesh& mesh = first.options.mesh;
  const int64_t stages = mesh.ranks(kPipelineAxis);
  std::vector<StageList> lists;
  std::vector<StageSeconds> seconds;
  for (int64_t stage = 0; stage < stages; ++stage) {
    CompiledStep other;
    if (stage > 0) {
      CompileOptions options = first.options;
      options.rank = mesh.RankAt({{kPipelineAxis, stage}});
      options.dump_directory.clear();  // the first stage's programs are there
      other = Compile(model, options);
    }
    const CompiledStep& compiled = stage == 0 ? first : other;
    seconds.push_back(SecondsOf(compiled, cost));
    lists.push_back(OneForwardOneBackward(stages, stage, micro_batches_));
    const auto micro_batches = static_cast<double>(micro_batches_);
    rows_.push_back({.blocks = first.options.stages.at(static_cast<size_t>(stage)),
                     .in_flight = SlotsOfStage(stages, stage, micro_batches_),
                     .arena_bytes = compiled.plan.arena_bytes,
                     .seconds = micro_batches * (seconds.back().forward + seconds.back().backward) +
                                seconds.back().update});
  }
  const StepTimeline timeline = TimelineOf(lists, seconds);
  seconds_ = timeline.seconds;
  for (size_t stage = 0; stage < rows_.size(); ++stage) rows_[stage].idle = timeline.idle[stage];
}

std::string StageTable::Text() const {
  std::string text = "  stage  blocks  in flight      arena    works     waits\n";
  for (size_t stage = 0; stage < rows_.size(); ++stage) {
    const Row& row = rows_[stage];
    text +=
        fmt::format("  {:5}  {:6}  {:9}  {:>9}  {:7.1f} ms  {:4.1f} %\n", stage, row.blocks,
                    row.in_flight, FormatBytes(row.arena_bytes), row.seconds * 1e3, 100 * row.idle);
  }
  const auto stages = static_cast<int64_t>(rows_.size());
  return text + fmt::format(
                    "  step of all stages: {:.1f} ms; with equal stages {} / {} = {:.1f} % "
                    "of it is waiting\n",
                    seconds_ * 1e3, stages - 1, micro_batches_ + stages - 1,
                    100 * BubbleOf(stages, micro_batches_));
}

nlohmann::ordered_json StageTable::Json() const {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Row& row : rows_) {
    rows.push_back({{"blocks", row.blocks},
                    {"in_flight", row.in_flight},
                    {"arena_bytes", row.arena_bytes},
                    {"seconds", row.seconds},
                    {"idle", row.idle}});
  }
  return {{"seconds", seconds_},
          {"bubble", BubbleOf(static_cast<int64_t>(rows_.size()), micro_batches_)},
          {"of_ranks", rows}};
}

}  // namespace plimsoll::trainer
