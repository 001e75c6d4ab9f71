// A run that is ready to train: its data is open, its step is planned and in memory, and its
// weights have their first values. The loop (training_loop.h) trains it.
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
  // The arguments must outlive this object; `resumed` is nullptr for a run from the beginning.
  // Writes nothing to `directory`. Throws UserErrors on all ranks alike. Throws
  // ProcessBeyondBudget, also on all ranks, if a plan that needs less memory may help.
  PreparedRun(const ResolvedRun& resolved, DeviceStart& device_start, Ranks& ranks,
              const RunDirectory& directory, const std::optional<ProfiledSteps>& profile,
              const Resumed* resumed);

  ~PreparedRun() { feed.Stop(); }

  // Whether the run continues in the directory of the run that it resumes.
  bool Continues() const { return resumed != nullptr && resumed->continues; }

  const ResolvedRun& resolved;
  const config::RunConfig& config;  // resolved.config
  Ranks& ranks;
  const Resumed* resumed;
  std::unique_ptr<models::Model> model;

 private:
  std::unique_ptr<Activity> under_way_;  // must outlive all that the constructor makes

 public:
  StepFeed feed;
  std::optional<HeldOut> held_out;  // has a value if train.eval_every is set
  // The preferences' reference log-probabilities, until the data's rows contain them.
  std::optional<ReferenceLogProbs> references;
  std::unique_ptr<data::Tokenizer> tokenizer;  // not nullptr if train.sample_every is set
  // Tokens that end the model's texts, in addition to the tokenizer's own.
  std::vector<int32_t> ends;
  runtime::Device* device = nullptr;
  memory::Allocation allocation;
  std::unique_ptr<Session> session;
  Monitor monitor;
  std::optional<GpuAccount> gpu;
  std::string gpu_line;  // the line that GpuAccount::StartUp returned
  std::optional<RunProfiler> profiler;
  double compile_seconds = 0;
  int64_t first_step = 0;                     // the first step of this process
  std::vector<std::string> metrics, samples;  // rows kept from an earlier part of the run
  RunRecord record;                           // the run's description at first_step

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
