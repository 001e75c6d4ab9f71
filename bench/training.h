// Common parts of the benchmarks of whole training steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile.h"
#include "trainer/step/session.h"

namespace plimsoll::bench {

// The training of a run file, without its evaluation and generation.
struct Training {
  config::RunConfig config;
  std::unique_ptr<models::Model> model;
  trainer::CompileOptions options;
};
// Prints what a solver has chosen for it. UserError, as a run would have it.
Training LoadTraining(const std::string& file, const std::vector<std::string>& sets);

// Fills the batch slots with the first samples of the run's data. A GPU copies the batches of sources
// that threads prepare once, and keeps them for all steps.
void FillBatch(trainer::Session& session, const config::RunConfig& config,
               const models::Model& model);

// Tells the session what a step of each objective is told, at some learning rate.
void BeginStep(trainer::Session& session);

// Runs one step on the contents of the batch slots, and waits for the device; returns seconds.
double RunStep(trainer::Session& session, int64_t step);

// Runs `steps` steps from `first` on, with the host as far ahead of the device as in a run; returns
// seconds.
double RunSteps(trainer::Session& session, int64_t first, int64_t steps);

double SecondsOf(const std::function<void()>& work);

double Median(std::vector<double> values);

// Writes the text and a newline. UserError when the file can't be written.
void WriteText(const std::string& path, const std::string& text);

// Runs `body` in the caller's folder (`bazel run` starts programs elsewhere); returns the exit
// code, after printing the message of a UserError.
int RunBenchmark(const std::function<void()>& body);

}  // namespace plimsoll::bench
