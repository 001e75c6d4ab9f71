// The results of a run that ended normally: the model, summary.json, the closing lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "data/source.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/gpu_account.h"
#include "trainer/record/progress.h"
#include "trainer/record/run_directory.h"
#include "trainer/resolve/ranks.h"
#include "trainer/save_and_resume/run_record.h"
#include "trainer/step/session.h"
#include "trainer/step_log.h"

namespace plimsoll::trainer {

struct EndedRun {
  const config::RunConfig& config;
  const data::Source& source;
  const models::Model& model;
  Session& session;
  Ranks& ranks;
  RunDirectory& directory;
  const StepLog& log;
  const GpuAccount& gpu;
  Progress& progress;
  const EvaluationState& evaluation;
  const StepCounts& counts;
  const std::string& base;       // see RunRecord::base
  const std::string& chosen;     // the budget solver's choices
  double predicted_seconds = 0;  // predicted time of a step
  const std::string& rates;      // see Closing::rates
  std::string data_advice = "";  // see Closing::data_advice
  int64_t steps_done = 0;
  int64_t steps_run = 0;  // number of steps in this process
  std::chrono::steady_clock::time_point start = {};
};

// Writes the results. All ranks call this. With save.best the session holds the weights of the best
// evaluation afterwards.
void LeaveResults(const EndedRun& run);

}  // namespace plimsoll::trainer
