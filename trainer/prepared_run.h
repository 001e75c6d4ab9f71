// A run that is ready to train: its data are open, its step is planned and in memory, and its
// weights are those that it begins with. The loop (training_loop.h) trains it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "memory/allocation.h"
#include "models/model.h"
#include "trainer/gpu_account.h"
#include "trainer/held_out.h"
#include "trainer/record/profile.h"
#include "trainer/record/run_directory.h"
#include "trainer/resolve/activity.h"
#include "trainer/resolve/device_start.h"
#include "trainer/resolve/monitor.h"
#include "trainer/resolve/ranks.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/save_and_resume/reference_log_probs.h"
#include "trainer/save_and_resume/resume.h"
#include "trainer/save_and_resume/run_record.h"
#include "trainer/step/session.h"
#include "trainer/step_feed.h"

namespace plimsoll::trainer {

class PreparedRun {
 public:
  // The arguments must outlive it; `resumed` is nullptr for a run from the beginning. Writes
  // nothing to `directory`. UserErrors; ProcessBeyondBudget when a plan for less memory may help,
  // on all ranks alike.
  PreparedRun(const ResolvedRun& resolved, DeviceStart& device_start, Ranks& ranks,
              const RunDirectory& directory, const std::optional<ProfiledSteps>& profile,
              const Resumed* resumed);

  ~PreparedRun() { feed.Stop(); }

  // It continues in the directory of the run that it resumes.
  bool Continues() const { return resumed != nullptr && resumed->continues; }

  const ResolvedRun& resolved;
  const config::RunConfig& config;  // resolved.config
  Ranks& ranks;
  const Resumed* resumed;
  std::unique_ptr<models::Model> model;

 private:
  std::unique_ptr<Activity> under_way_;  // outlives what the constructor makes

 public:
  StepFeed feed;
  std::optional<HeldOut> held_out;              // with train.eval_every
  std::optional<ReferenceLogProbs> references;  // of preferences; the rows have them
  std::unique_ptr<data::Tokenizer> tokenizer;   // with train.sample_every
  std::vector<int32_t> ends;  // tokens that end texts of the model, besides the tokenizer's own
  runtime::Device* device = nullptr;
  memory::Allocation allocation;
  std::unique_ptr<Session> session;
  Monitor monitor;
  std::optional<GpuAccount> gpu;
  std::string gpu_line;  // from start-up
  std::optional<RunProfiler> profiler;
  double compile_seconds = 0;
  int64_t first_step = 0;                     // of this process
  std::vector<std::string> metrics, samples;  // rows of an earlier part that stay
  RunRecord record;                           // of the state at first_step

 private:
  std::unique_ptr<Activity> UnderWay(const std::string& what, const std::string& stage) const;
  void TakeClassNames();
  void DescribeItself();
  void ReadReferences(const RunDirectory& directory);
  void ComputeReferences(const RunDirectory& directory);
  void PrepareEvaluation();
  CompiledStep CompileStep(CompileOptions options);
  std::string MemoryText(const memory::MemoryPlan& plan) const;
  void MakeSession(CompiledStep compiled);
  void StartUp();
};

}  // namespace plimsoll::trainer
