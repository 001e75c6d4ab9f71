// A table of a pipeline's stages.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "memory/cost_model.h"
#include "trainer/step/compile.h"
#include "trainer/step/stage_schedule.h"

namespace plimsoll::trainer {

// The number of the compiled pipeline stage; 0 for a run without stages.
int64_t StageOf(const CompiledStep& compiled);

// A run's compiled step; for a pipeline, the steps of all stages.
struct PlannedStep {
  CompiledStep first;
  std::vector<CompiledStep> others;  // empty without stages

  // The steps, or their programs, of all stages.
  std::vector<const CompiledStep*> All() const;
  std::vector<const graph::Program*> Programs() const;
  // The stage with the largest arena, which must fit.
  const CompiledStep& Largest() const;
  double Flops() const;
};

class StageTable {
 public:
  // `recomputes`: by stage, a text that lists the recomputed tensors.
  StageTable(const PlannedStep& step, const memory::CostModel& cost,
             std::vector<std::string> recomputes);

  double seconds() const { return seconds_; }  // time of the step
  // The table, with the share of a step in which stages wait for one another.
  std::string Text() const;
  nlohmann::ordered_json Json() const;

 private:
  struct Row {
    int64_t blocks = 0;
    int64_t in_flight = 0;  // number of micro-batches
    int64_t parameter_bytes = 0, state_bytes = 0;
    int64_t slot_bytes = 0;  // bytes of activations kept in all slots
    int64_t arena_bytes = 0;
    StageSeconds seconds = {};
    double works = 0;            // seconds of work in a step, without waiting
    double recompute_share = 0;  // share of recomputation in its work
    double idle = 0;             // share of the step in which it is idle
  };
  int64_t micro_batches_;
  double seconds_ = 0;
  std::vector<Row> rows_;
  std::vector<std::string> recomputes_;
};

}  // namespace plimsoll::trainer
