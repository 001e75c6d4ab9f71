#include "trainer/train.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/message.h"
#include "base/stage.h"
#include "base/version.h"
#include "trainer/announcement.h"
#include "trainer/prepared_run.h"
#include "trainer/record/mlflow_facts.h"
#include "trainer/record/run_directory.h"
#include "trainer/resolve/device_start.h"
#include "trainer/resolve/epochs.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/link_rates.h"
#include "trainer/resolve/ranks.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/resolve/run_device.h"
#include "trainer/save_and_resume/earlier_defaults.h"
#include "trainer/save_and_resume/resume.h"
#include "trainer/save_and_resume/save_snapshot.h"
#include "trainer/step/adapter.h"
#include "trainer/training_loop.h"

namespace plimsoll::trainer {
ExitCode Train(const config::Loaded& loaded, runtime::World& world, const TrainOptions& options) {
  std::optional<Stage> checks("checks");
  config::RunConfig config = loaded.config;
  world.Watch(config.parallel.timeout, [] { return "before the first step"; });
  RequireSame(
      world,
      fmt::format("{} {}\n{}\n{}", Version(), Commit(), options.resume, loaded.resolved_yaml),
      "program and configuration");
  CheckMesh(config, world.size());
  std::unique_ptr<models::Model> model = ModelFrom(config);
  const bool first = world.rank() == 0;
  if (first) MlflowFolder(config);  // refuses an MLflow server
  RunDirectory directory(config, first);
  if (world.size() > 1) RequireSharedFolder(directory.path(), world);
  std::optional<Resumed> resumed;
  if (!options.resume.empty()) {
    const auto path = FindSnapshot(options.resume, config, world);
    if (path) resumed.emplace(*path, config.run.dir);
  }
  if (!resumed) RequireAdapterNamed(config);
  if (!resumed || !resumed->continues) directory.RequireReplaceable(config);
  const Resumed* from = resumed ? &*resumed : nullptr;
  config::Loaded kept_run = loaded;
  if (resumed) {
    const std::vector<std::string> kept =
        KeepEarlierDefaults(kept_run.config, resumed->record.config);
    // Packed rows and windows have epochs of different lengths.
    if (kept_run.config.data.packing != config.data.packing) CountEpochs(kept_run, world.size());
    kept_run.resolved_yaml = config::ToYaml(kept_run.config);
    config = kept_run.config;
    CheckMesh(config, world.size());
    model = ModelFrom(config);
    for (const std::string& line : kept) {
      if (first) PrintProgress(fmt::format("{}, as the run began\n", line));
    }
  }
  const config::RunConfig open = config;
  if (resumed) {
    const std::string kept = KeepChoices(config, resumed->record.config);
    if (!kept.empty() && first) {
      PrintProgress(fmt::format("{}, as the run chose before its snapshot\n", kept));
    }
  }
  DeviceStart device(config);
  if (first) PrintProgress(Header(config, *model));
  checks.reset();
  ResolvedRun resolved = [&] {
    const Stage stage("planning");
    MeasureLink(config, world);
    return ResolveOnFirst(config, *model, world);
  }();
  Ranks ranks(world, MeshFrom(resolved.config));
  std::unique_ptr<PreparedRun> run;
  const auto prepare = [&] {
    run = std::make_unique<PreparedRun>(resolved, device, ranks, directory, options.profile, from);
  };
  try {
    prepare();
  } catch (const ProcessBeyondBudget& problem) {
    // The memory that the process needs is known now, so the solver may find a plan that fits.
    config::RunConfig laid_out = config;
    KeepLayout(laid_out, resolved.config);
    if (!LeavesChoice(laid_out)) throw;
    PrintWarning(fmt::format("{}; planning again", problem.what()));
    resolved = ResolveOnFirst(laid_out, *model, world);
    prepare();
  }
  TrainingLoop loop(*run, directory, options.resume_command);
  try {
    loop.Begin(kept_run.resolved_yaml, ChoicesJson(open, resolved.config));
    return loop.Run();
  } catch (const std::exception& error) {
    loop.EndStatus(RunStatus::State::kFailed, error.what());
    const std::string way_on = loop.WayOn();
    if (dynamic_cast<const InternalError*>(&error) != nullptr)
      throw InternalError(error.what() + way_on);
    const auto* const mistake = dynamic_cast<const UserError*>(&error);
    if (mistake == nullptr) throw;
    // Exit code 2 (kUserMistake) would mean that nothing was started.
    throw UserError(error.what() + way_on, mistake->code() == ExitCode::kUserMistake
                                               ? ExitCode::kInternal
                                               : mistake->code());
  }
}

}  // namespace plimsoll::trainer
