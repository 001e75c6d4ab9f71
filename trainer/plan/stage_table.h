// The stages of a pipeline next to one another.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "memory/cost_model.h"
#include "models/model.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

class StageTable {
 public:
  // Compiles the step of each stage but the first, which `first` is.
  StageTable(const models::Model& model, const CompiledStep& first, const memory::CostModel& cost);

  double seconds() const { return seconds_; }  // of the step
  // With the share of a step in which stages wait for one another.
  std::string Text() const;
  nlohmann::ordered_json Json() const;

 private:
  struct Row {
    int64_t blocks = 0;
    int64_t in_flight = 0;  // micro-batches
    int64_t arena_bytes = 0;
    double seconds = 0;  // of its runs, without waiting
    double idle = 0;     // share of the step
  };
  int64_t micro_batches_;
  double seconds_ = 0;
  std::vector<Row> rows_;
};

}  // namespace plimsoll::trainer
