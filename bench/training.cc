#include "bench/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/resolve/source_from.h"

namespace plimsoll::bench {

Training LoadTraining(const std::string& file, const std::vector<std::string>& sets) {
  Training training{.config = trainer::LoadRun(file, sets).config, .model = nullptr, .options = {}};
  training.model = trainer::ModelFrom(training.config);
  const trainer::ResolvedRun resolved = trainer::ResolveRun(training.config, *training.model);
  if (!resolved.chosen.empty()) fmt::print("chosen: {}\n", resolved.chosen);
  training.options = resolved.options;
  training.options.evaluate = false;
  training.options.generate_rows = 0;
  return training;
}

void FillBatch(trainer::Session& session, const config::RunConfig& config,
               const models::Model& model) {
  const trainer::CompileOptions& options = session.compiled().options;
  const data::Draws draws{.batch = options.micro_batch};
  const auto source = trainer::SourceFrom(config, model, draws);
  for (int64_t i = 0; i < options.micro_steps_per_program; ++i) {
    source->Fill(0, session.slots(i));
    if (i >= session.input_places()) continue;
    const int place = static_cast<int>(i);
    source->Fill(0, session.place_slots(place));
    session.ReadFrom(i, place);
  }
}

void BeginStep(trainer::Session& session) {
  const trainer::CompileOptions& options = session.compiled().options;
  const int64_t targets = options.micro_batch * options.sequence * options.accumulate;
  std::vector<trainer::ObjectiveStep> told;
  for (const models::Objective& objective : session.compiled().objectives) {
    told.push_back({std::vector(static_cast<size_t>(objective.updates), targets), 1e-4});
  }
  session.BeginStep(told, 1);
}

namespace {

void HandInStep(trainer::Session& session, int64_t step) {
  BeginStep(session);
  for (int64_t run = 0; run < session.compiled().step.runs(); ++run) session.Run(step, run);
}

}  // namespace

double RunStep(trainer::Session& session, int64_t step) {
  return SecondsOf([&] {
    HandInStep(session, step);
    session.device().Synchronize();
  });
}

double RunSteps(trainer::Session& session, int64_t first, int64_t steps) {
  session.device().Synchronize();
  return SecondsOf([&] {
    int under_way = 0;
    for (int64_t step = first; step < first + steps; ++step) {
      HandInStep(session, step);
      session.EndStep();
      for (++under_way; under_way > session.device().steps_ahead(); --under_way) {
        session.TakeMetrics();
      }
    }
    for (; under_way > 0; --under_way) session.TakeMetrics();
  });
}

double SecondsOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void WriteText(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) throw UserError(path + ": cannot write");
  fmt::print(file, "{}\n", text);
  std::fclose(file);
}

int RunBenchmark(const std::function<void()>& body) {
  if (const char* directory = std::getenv("BUILD_WORKING_DIRECTORY")) {
    std::filesystem::current_path(directory);
  }
  try {
    body();
  } catch (const UserError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}

}  // namespace plimsoll::bench
