#include "trainer/prepared_run.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/axes.h"
#include "base/bytes.h"
#include "base/columns.h"
#include "base/message.h"
#include "base/stage.h"
#include "data/class_names.h"
#include "runtime/process_memory.h"
#include "trainer/record/run_metrics.h"
#include "trainer/resolve/activity.h"
#include "trainer/resolve/budget_error.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/resolve/run_device.h"
#include "trainer/resolve/source_from.h"
#include "trainer/save_and_resume/read_snapshot.h"
#include "trainer/save_and_resume/text_ends.h"
#include "trainer/starting_weights.h"

namespace plimsoll::trainer {

PreparedRun::PreparedRun(const ResolvedRun& resolved, DeviceStart& device_start, Ranks& ranks,
                         const RunDirectory& directory, const std::optional<ProfiledSteps>& profile,
                         const Resumed* resumed)
    : resolved(resolved),
      config(resolved.config),
      ranks(ranks),
      resumed(resumed),
      model(ModelFrom(config)),
      under_way_(UnderWay("reading the data", "data")),
      feed(config, *model, ranks.position()) {
  if (ranks.first()) {
    for (const std::string& warning : DataWarnings(config, feed.source())) PrintWarning(warning);
  }
  TakeClassNames();
  DescribeItself();
  ReadReferences(directory);
  PrepareEvaluation();
  const auto begin = [&](const std::string& what, const std::string& stage) {
    under_way_.reset();
    under_way_ = UnderWay(what, stage);
  };
  begin("planning the step" + BoundCoresNote(), "planning");
  CompiledStep compiled = CompileStep(resolved.options);
  begin("starting the device", "device");
  device = &device_start.Connected(ranks, config.parallel.nccl_max_ctas.value_or(0));
  ranks.RequireOnAll([&] { gpu->CheckFree(compiled.plan); });
  if (profile) profiler.emplace(*device, *profile);
  begin(MemoryText(compiled.plan), "memory");
  // Returns memory to the system that was freed after reading text and planning. Otherwise it would
  // count in addition to the arena.
  runtime::ReturnFreeMemory();
  MakeSession(std::move(compiled));
  monitor = MonitorFrom(config, session->metrics());
  Follow(monitor, record.evaluation);
  const StartingWeights weights{config, *model, ranks, *session, resumed, record.base};
  begin(weights.Text(), "weights");
  weights.Fill();
  under_way_.reset();
  ComputeReferences(directory);
  if (profiler) profiler->Watch(*session);
  if (Continues()) {
    metrics = LinesUntil(directory.File("metrics.jsonl"), resumed->step,
                         resumed->record.evaluation.last, resumed->record.divergence.rollbacks);
    samples = SamplesUntil(directory.File("samples.jsonl"), resumed->step);
  }
}

// Takes the class names from the data. Warns if the weights were trained with different names.
void PreparedRun::TakeClassNames() {
  const std::vector<std::string> names = feed.source().class_names();
  const std::string other = data::OtherClassesText(
      resumed != nullptr ? resumed->record.class_names : model->class_names(), names);
  if (ranks.first() && !other.empty()) PrintWarning(other);
  model->set_class_names(names);
}

// Fills `record`, which describes the run for its snapshots, and sets the step at which the run
// begins.
void PreparedRun::DescribeItself() {
  record = RecordOf(config, *model);
  record.base = BaseChecksum(config, ranks);
  record.sequences_per_step = feed.draws().samples_per_step();
  if (const std::vector<int64_t> sizes = feed.source().sizes(); !sizes.empty()) {
    record.train_tokens = sizes.front();
    record.source_tokens.assign(sizes.begin() + 1, sizes.end());
  }
  record.source_checksums = feed.source().checksums();
  if (resumed == nullptr) return;
  RequireContinues(resumed->record, record, config, resumed->snapshot.path());
  for (const std::string& warning :
       {DropoutWarning(resumed->record, model->dropout(),
                       config.lora.rank > 0 ? config.lora.dropout : 0, resumed->snapshot.path()),
        LabelsWarning(resumed->record, resumed->snapshot.path())}) {
    if (ranks.first() && !warning.empty()) PrintWarning(warning);
  }
  record.evaluation = resumed->record.evaluation;
  record.divergence = resumed->record.divergence;
  feed.ContinueAt(resumed->step, resumed->record.sequences);
  first_step = resumed->step;
}

// Reads the reference log-probabilities of preferences from the resumed run. Its weights have
// changed, so the log-probabilities cannot be computed again.
void PreparedRun::ReadReferences(const RunDirectory& directory) {
  const PreferenceRows rows = feed.source().PreferenceRows();
  if (resumed == nullptr || rows.empty()) return;
  const std::string path = Continues()
                               ? directory.File(kReferenceFile)
                               : RunOfSnapshot(resumed->snapshot.path()) + "/" + kReferenceFile;
  references = ReferenceLogProbs::Read(path, record.base);
  references->Set(rows, path);
}

// Computes the reference log-probabilities of preferences with the run's first weights.
void PreparedRun::ComputeReferences(const RunDirectory& directory) {
  const PreferenceRows rows = feed.source().PreferenceRows();
  if (resumed != nullptr || rows.empty()) return;
  const Stage stage("references");
  if (ranks.first() && model->configured_dropout().any() && !model->dropout().any()) {
    PrintProgress(
        "dropout: off, since the reference has none; the model's own with preference.dropout: "
        "model\n");
  }
  int64_t tenths = 0;
  references = ReferenceLogProbs::Compute(
      *session, rows, ranks, record.base, [&](int64_t done, int64_t all) {
        ranks.Progress();
        if (!ranks.first() || 10 * done / all == tenths) return;
        tenths = 10 * done / all;
        PrintProgress(fmt::format("reference log-probabilities: batch {} of {}\n", done, all));
      });
  references->Set(rows, directory.File(kReferenceFile));
}

// Prepares evaluations on held-out sequences and sampling, if the configuration asks for them.
void PreparedRun::PrepareEvaluation() {
  if (config.train.eval_every > 0) {
    held_out.emplace(config, feed.source(), ranks);
  }
  if (model->text_sizes()) ends = TextEnds(*model, config.model.init_from);
  if (config.train.sample_every == 0) return;
  if (config.data.tokenizer.empty()) {
    throw config.Error("train.sample_every",
                       "samples need data.tokenizer: byte, or a tokenizer's path");
  }
  try {
    tokenizer = TokenizerFor(*model, config.data.tokenizer);
    Apply(TextTokensFrom(config.data), *tokenizer);
  } catch (const UserError& error) {
    throw config.Error("data.tokenizer", error.what());
  }
}

// Compiles the step for this rank. Throws a UserError if the ranks' programs do not agree, or if
// the plan exceeds the budget.
CompiledStep PreparedRun::CompileStep(CompileOptions options) {
  allocation = AllocationFrom(config, ranks.size());
  const auto start = std::chrono::steady_clock::now();
  options.rank = ranks.rank();
  std::optional<CompiledStep> made;
  ranks.RequireOnAll([&] { made = Compile(*model, options); });
  CompiledStep& compiled = *made;
  const std::string warning = RefusalWarning(config, compiled);
  if (ranks.first() && !warning.empty()) PrintWarning(warning);
  record.plan = FingerprintOf(compiled);
  ranks.RequireAgreement(compiled);
  ranks.AddUpStages(compiled);
  // Stages have different plans.
  ranks.RequireOnAll(
      [&] { CheckBudget(config, compiled.plan, ranks.position().at(kPipelineAxis)); });
  if (allocation.planned) ranks.RequireHostMemory(compiled);
  gpu.emplace(config);
  compile_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return std::move(*made);
}

// Text for the user while MakeSession works: "taking 8.00 GiB …".
std::string PreparedRun::MemoryText(const memory::MemoryPlan& plan) const {
  std::string text = "taking " + FormatBytes(plan.arena_bytes);
  if (plan.host_arena_bytes > 0) {
    text += fmt::format(" and {} of the host", FormatBytes(plan.host_arena_bytes));
  }
  if (device->kind() == runtime::DeviceKind::kCpu) return text;
  return text + ", choosing algorithms and recording the step";
}

void PreparedRun::MakeSession(CompiledStep compiled) {
  session = std::make_unique<Session>(
      std::move(compiled), *device,
      runtime::ExecutorOptions{
          .poison = config.debug.poison,
          .check_arena = config.debug.check_arena,
          // On a GPU, nodes can be timed only in programs that run node by node.
          .profile = profiler.has_value() || (config.memory.summary == config::Summary::kFull &&
                                              device->kind() == runtime::DeviceKind::kCpu),
          .check_finite = config.debug.find_nan,
          .launch =
              config.debug.node_by_node ? runtime::Launch::kAwaited : runtime::Launch::kRecorded,
          .communicators = ranks.communicators()},
      allocation, ranks.groups(), ranks.stage_link());
  if (allocation.planned) StartUp();
  // A pipeline stage that reads no data has no slots.
  if (!session->slots().empty()) RequireAll(config, feed.source(), session->slots());
}

// If one rank must plan again, all ranks plan again.
void PreparedRun::StartUp() {
  std::optional<ProcessBeyondBudget> problem;
  try {
    gpu_line = gpu->StartUp(session->compiled().plan, session->memory().process_parts());
  } catch (const ProcessBeyondBudget& found) {
    problem = found;
  }
  if (!ranks.Any(problem.has_value())) return;
  throw problem ? *problem : ProcessBeyondBudget("another rank's process is beyond the budget");
}

std::unique_ptr<Activity> PreparedRun::UnderWay(const std::string& what,
                                                const std::string& stage) const {
  return ranks.first() ? std::make_unique<Activity>(what, stage) : nullptr;
}

}  // namespace plimsoll::trainer
