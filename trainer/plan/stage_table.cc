#include "trainer/plan/stage_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/axes.h"
#include "base/bytes.h"
#include "trainer/resolve/run_costs.h"

namespace plimsoll::trainer {
namespace {

using graph::Role;

// The bytes of persistent tensors with these roles on the device.
int64_t ResidentBytes(const memory::MemoryPlan& plan, std::initializer_list<Role> roles) {
  int64_t bytes = 0;
  for (const memory::PersistentTensor& tensor : plan.persistent) {
    const bool counts = std::ranges::find(roles, tensor.role) != roles.end();
    if (counts && tensor.place == graph::Place::kDevice) bytes += tensor.bytes;
  }
  return bytes;
}

// The share of recomputation in the time of a stage's runs.
double ShareOfRecomputation(const CompiledStep& stage, const memory::CostModel& cost) {
  const double again = OverStep(stage, [&](const graph::Program& program, const graph::Node& node) {
    return node.phase == graph::Phase::kRecompute ? cost.Seconds(program.CallOf(node).get()) : 0.0;
  });
  return again / PredictSeconds(stage, cost);
}

}  // namespace

int64_t StageOf(const CompiledStep& compiled) {
  return compiled.options.mesh.Coordinate(compiled.options.rank, kPipelineAxis);
}

std::vector<const CompiledStep*> PlannedStep::All() const {
  std::vector<const CompiledStep*> all = {&first};
  for (const CompiledStep& other : others) all.push_back(&other);
  return all;
}

std::vector<const graph::Program*> PlannedStep::Programs() const {
  std::vector<const graph::Program*> programs;
  for (const CompiledStep* stage : All()) {
    for (const auto& program : stage->programs) programs.push_back(program.get());
  }
  return programs;
}

const CompiledStep& PlannedStep::Largest() const {
  const auto all = All();
  return **std::ranges::max_element(
      all, {}, [](const CompiledStep* stage) { return stage->plan.arena_bytes; });
}

double PlannedStep::Flops() const {
  double flops = 0;
  for (const CompiledStep* stage : All()) flops += stage->flops_per_step;
  return flops;
}

StageTable::StageTable(const PlannedStep& step, const memory::CostModel& cost,
                       std::vector<std::string> recomputes)
    : micro_batches_(step.first.options.accumulate), recomputes_(std::move(recomputes)) {
  const CompileOptions& options = step.first.options;
  std::vector<StageSeconds> seconds;
  for (const CompiledStep* stage : step.All()) {
    const auto number = std::ssize(rows_);
    const StageSeconds& of = seconds.emplace_back(StageSecondsOf(*stage, cost));
    rows_.push_back(
        {.blocks = options.stages.at(static_cast<size_t>(number)),
         .in_flight = SlotsOfStage(std::ssize(options.stages), number, micro_batches_),
         .parameter_bytes = ResidentBytes(stage->plan, {Role::kParameter}),
         .state_bytes = ResidentBytes(stage->plan, {Role::kMaster, Role::kOptimizerState}),
         .slot_bytes = ResidentBytes(stage->plan, {Role::kActivation}),
         .arena_bytes = stage->plan.arena_bytes,
         .seconds = of,
         .works = PredictSeconds(*stage, cost),
         .recompute_share = ShareOfRecomputation(*stage, cost)});
  }
  const StepTimeline timeline = PredictStages(seconds, micro_batches_);
  seconds_ = timeline.seconds;
  for (size_t stage = 0; stage < rows_.size(); ++stage) rows_[stage].idle = timeline.idle[stage];
}

std::string StageTable::Text() const {
  std::string text =
      "  stage  blocks  slots  parameters       state  activations       arena  recompute\n";
  for (size_t stage = 0; stage < rows_.size(); ++stage) {
    const Row& row = rows_[stage];
    text += fmt::format("  {:5}  {:6}  {:5}  {:>10}  {:>10}  {:>11}  {:>10}  {:7.1f} %\n", stage,
                        row.blocks, row.in_flight, FormatBytes(row.parameter_bytes),
                        FormatBytes(row.state_bytes), FormatBytes(row.slot_bytes),
                        FormatBytes(row.arena_bytes), 100 * row.recompute_share);
  }
  text += fmt::format(
      "  stage  forward     backward    of {:>2} each      update        works   waits\n",
      micro_batches_);
  for (size_t stage = 0; stage < rows_.size(); ++stage) {
    const Row& row = rows_[stage];
    const StageSeconds& of = row.seconds;
    text += fmt::format(
        "  {:5}  {:>9}  {:>9.2f} ms  {:>9.2f} ms  {:>7.2f} ms  {:>8.2f} ms  {:4.1f} %\n", stage,
        of.forward > 0 ? fmt::format("{:.2f} ms", of.forward * 1e3) : "within", of.backward * 1e3,
        static_cast<double>(micro_batches_) * (of.forward + of.backward) * 1e3, of.update * 1e3,
        row.works * 1e3, 100 * row.idle);
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
  for (size_t stage = 0; stage < rows_.size(); ++stage) {
    const Row& row = rows_[stage];
    rows.push_back({{"blocks", row.blocks},
                    {"in_flight", row.in_flight},
                    {"parameter_bytes", row.parameter_bytes},
                    {"state_bytes", row.state_bytes},
                    {"slot_bytes", row.slot_bytes},
                    {"arena_bytes", row.arena_bytes},
                    {"recomputes", recomputes_.at(stage)},
                    {"recompute_share", row.recompute_share},
                    {"forward_seconds", row.seconds.forward},
                    {"backward_seconds", row.seconds.backward},
                    {"update_seconds", row.seconds.update},
                    {"seconds", row.works},
                    {"idle", row.idle}});
  }
  return {{"seconds", seconds_},
          {"bubble", BubbleOf(static_cast<int64_t>(rows_.size()), micro_batches_)},
          {"of_ranks", rows}};
}

}  // namespace plimsoll::trainer
