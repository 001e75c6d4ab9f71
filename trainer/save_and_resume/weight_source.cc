#include "trainer/save_and_resume/weight_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "adapters/peft.h"
#include "base/error.h"
#include "base/folders.h"
#include "snapshots/folder.h"
#include "snapshots/snapshot.h"
#include "trainer/resolve/from_config.h"
#include "trainer/save_and_resume/resume.h"
#include "trainer/step/adapter.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;

bool IsNewer(const std::string& file, const std::string& than) {
  std::error_code error;
  return fs::last_write_time(file, error) > fs::last_write_time(than, error);
}

std::string ManifestOf(const std::string& snapshot) {
  return snapshot + "/" + snapshots::kManifestFile;
}

// The number of steps before the best evaluation, from the newest snapshot's record.
int64_t BestStep(const std::string& run, const std::string& newest) {
  const RunRecord record = ParseRunRecord(snapshots::Snapshot(newest).manifest().run, newest);
  if (record.evaluation.best_step >= 0) return record.evaluation.best_step;
  throw UserError(fmt::format("--best: {} has not been evaluated yet (train.eval_every)", run));
}

std::string FindSnapshotOf(const std::string& run, const WeightChoice& choice) {
  const snapshots::Folder folder(SnapshotsOf(run));
  const std::vector<int64_t> steps = folder.Steps();
  const char* const option = choice.best ? "--best" : "--step";
  if (steps.empty()) {
    throw UserError(fmt::format("{}: {} has no snapshots (save.every, save.best)", option, run));
  }
  const int64_t step = choice.best ? BestStep(run, folder.PathOf(steps.back())) : *choice.step;
  if (std::ranges::find(steps, step) != steps.end()) return folder.PathOf(step);
  throw UserError(fmt::format("{}: {} has no snapshot of step {}{}; there are {}", option, run,
                              step, choice.best ? ", which save.best: true would have kept" : "",
                              fmt::join(steps, ", ")));
}

}  // namespace

bool IsSnapshot(const std::string& folder) { return Exists(ManifestOf(folder)); }

bool IsRunDirectory(const std::string& folder) { return Exists(folder + "/config.yaml"); }

std::string FindWeights(std::string path, const WeightChoice& choice) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const bool chosen = choice.step || choice.best;
  if (IsSnapshot(path)) {
    if (!chosen) return path;
    throw UserError(fmt::format("{}: {} is one snapshot; name the run's directory to choose",
                                choice.best ? "--best" : "--step", path));
  }
  if (!IsRunDirectory(path)) {
    throw UserError(fmt::format("{}: neither a run directory (config.yaml) nor a snapshot ({})",
                                path, snapshots::kManifestFile));
  }
  if (chosen) return FindSnapshotOf(path, choice);
  const char* const suffix = choice.ema ? "_ema" : "";
  const std::string adapter = path + "/adapter" + suffix;
  const bool adapts = Exists(adapter + "/" + adapters::kConfigFile);
  const std::string trained = adapts ? adapter : path + "/model" + suffix;
  const std::string config = trained + "/" + (adapts ? adapters::kConfigFile : "config.json");
  const snapshots::Folder folder(SnapshotsOf(path));
  if (const std::vector<int64_t> steps = folder.Steps(); !steps.empty()) {
    const std::string newest = folder.PathOf(steps.back());
    if (!Exists(config) || IsNewer(ManifestOf(newest), config)) return newest;
  }
  if (Exists(config)) return trained;
  if (choice.ema) {
    throw UserError(
        fmt::format("--ema: {} has neither snapshots nor a model_ema/ or adapter_ema/; a run with "
                    "optimizer.ema writes them as save.every says, and when training ends",
                    path));
  }
  throw UserError(path +
                  ": the run has neither snapshots nor a model/ or adapter/ yet; it writes them as "
                  "save.every says, and when training ends");
}

std::vector<std::string> ModelSets(const RunRecord& record) {
  std::vector<std::string> sets;
  for (const auto& [key, value] : record.config) {
    const bool says = key.starts_with("model.") ||
                      (key.starts_with("lora.") && key != "lora.init_from") ||
                      key == "data.tokenizer";
    if (says) sets.push_back(fmt::format("{}={}", key, value));
  }
  return sets;
}

std::unique_ptr<models::Model> SavedModel(const RunRecord& record, const config::RunConfig& config,
                                          const std::string& snapshot) {
  std::unique_ptr<models::Model> model = ModelFrom(config);
  const std::map<std::string, std::string> now = model->description();
  // Earlier versions recorded fewer settings of models.
  const bool same = std::ranges::all_of(record.model, [&](const auto& setting) {
    const auto found = now.find(setting.first);
    return found == now.end() || found->second == setting.second;
  });
  if (!same) {
    throw UserError(
        fmt::format("{}: was written by a run of another model than the one that "
                    "model.init_from, {}, holds now; put back that one's config.json",
                    snapshot, config.model.init_from));
  }
  if (config.lora.asked()) RequireBase(record.base, snapshot, config.model.init_from);
  model->set_class_names(record.class_names);
  return model;
}

}  // namespace plimsoll::trainer
