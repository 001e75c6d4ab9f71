// The stages of a pipeline next to one another.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "memory/cost_model.h"
#include "trainer/step/compile.h"
#include "trainer/step/stage_schedule.h"

namespace plimsoll::trainer {

// The stage of a pipeline that was compiled; 0: of a run without stages.
int64_t StageOf(const CompiledStep& compiled);

// A run's step, and those of the other stages of a pipeline.
struct PlannedStep {
  CompiledStep first;
  std::vector<CompiledStep> others;  // empty: there are no stages

  // Of all stages.
  std::vector<const CompiledStep*> All() const;
  std::vector<const graph::Program*> Programs() const;
  // The stage with the largest arena, which has to fit.
  const CompiledStep& Largest() const;
  double Flops() const;
};

class StageTable {
 public:
  // `recomputes`: by stage, in words.
  StageTable(const PlannedStep& step, const memory::CostModel& cost,
             std::vector<std::string> recomputes);

  double seconds() const { return seconds_; }  // of the step
  // With the share of a step in which stages wait for one another.
  std::string Text() const;
  nlohmann::ordered_json Json() const;

 private:
  struct Row {
    int64_t blocks = 0;
    int64_t in_flight = 0;  // micro-batches
    int64_t parameter_bytes = 0, state_bytes = 0;
    int64_t slot_bytes = 0;  // of activations that all slots keep
    int64_t arena_bytes = 0;
    StageSeconds seconds = {};
    double works = 0;            // seconds of a step, without waiting
    double recompute_share = 0;  // of the time of its runs
    double idle = 0;             // share of the step
  };
  int64_t micro_batches_;
  double seconds_ = 0;
  std::vector<Row> rows_;
  std::vector<std::string> recomputes_;
};

}  // namespace plimsoll::trainer
