#include "trainer/record/run_directory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/amounts.h"
#include "base/message.h"
#include "base/output_file.h"
#include "snapshots/folder.h"
#include "trainer/record/run_status.h"

namespace plimsoll::trainer {

namespace fs = std::filesystem;

RunDirectory::RunDirectory(const config::RunConfig& config, bool writes)
    : path_(config.run.dir), adapts_(config.lora.asked()), writes_(writes) {
  if (!writes_) return;
  std::error_code error;
  created_ = !fs::exists(path_, error);
  fs::create_directories(model(), error);
  for (const std::string& folder : {path_, model()}) {
    if (!error && access(folder.c_str(), W_OK | X_OK) != 0) {
      error = std::error_code(errno, std::generic_category());
    }
  }
  if (error) {
    throw config.Error("run.dir", "cannot write to '" + path_ + "' (" + error.message() +
                                      "); name a folder that can be written, or change its rights");
  }
  RequireFiles(config);
  try {
    lock_.emplace(path_, "trains there");
  } catch (const UserError& problem) {
    throw config.Error("run.dir", std::string(problem.what()) + "; name another folder, or wait");
  }
}

void RunDirectory::RequireFiles(const config::RunConfig& config) const {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, error)) {
    if (entry.is_regular_file(error) || entry.is_directory(error) || !entry.exists(error)) continue;
    throw config.Error("run.dir",
                       fmt::format("'{}' is a pipe or a device, where a run has a file; remove it, "
                                   "or name another folder",
                                   entry.path().string()));
  }
}

void RunDirectory::RequireReplaceable(const config::RunConfig& config) const {
  std::error_code error;
  if (!writes_ || !fs::exists(File("metrics.jsonl"), error)) return;
  const std::vector<int64_t> kept = snapshots::Folder(File("snapshots")).Steps();
  const std::optional<RunStatus> status = ReadRunStatus(path_);
  const std::string command =
      status && !status->resume_command.empty() ? status->resume_command : "--resume auto";
  if (!config.run.overwrite) {
    throw config.Error("run.dir",
                       fmt::format("'{}' holds a run already{}; name another folder, or set "
                                   "run.overwrite: true to replace it{}",
                                   path_, kept.empty() ? ", without a snapshot to go on from" : "",
                                   kept.empty() ? "" : ", or go on with it by " + command));
  }
  if (kept.empty() || !status || status->state == RunStatus::State::kDone) return;
  PrintWarning(fmt::format(
      "run.dir: '{}' holds a run that was interrupted, with a snapshot after {}, which is "
      "replaced (run.overwrite); {} would have gone on with it",
      path_, Counted(kept.back(), "step"), command));
}

RunDirectory::~RunDirectory() {
  if (!writes_ || metrics_) return;
  // The run never began, so its empty folders are removed.
  lock_.reset();
  std::error_code ignored;
  fs::remove(model(), ignored);
  if (created_) fs::remove(path_, ignored);
}

void RunDirectory::Begin() {
  if (!writes_) return;
  // Removes old models: next to the new configuration they could be mistaken for this run's.
  std::error_code error;
  for (const std::string& folder :
       {File("model"), File("adapter"), File("model_ema"), File("adapter_ema")}) {
    for (const auto& file : fs::directory_iterator(folder, error)) {
      const std::string name = file.path().filename();
      if (name == "config.json" || name == "adapter_config.json" ||
          name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) {
        fs::remove(file.path(), error);
      }
    }
  }
  for (const auto& file : fs::directory_iterator(path_, error)) {
    if (file.path().filename().string().starts_with("events.out.tfevents.")) {
      fs::remove(file.path(), error);
    }
  }
  for (const char* folder : {"snapshots", "slices", "samples"}) fs::remove_all(File(folder), error);
  for (const char* file : {"summary.json", "samples.jsonl", "mlflow.json", kReferenceFile}) {
    fs::remove(File(file), error);
  }
  metrics_.emplace(File("metrics.jsonl"), /*append=*/false);
}

void RunDirectory::Continue(const std::vector<std::string>& metrics,
                            const std::vector<std::string>& samples) {
  if (!writes_) return;
  const auto write = [&](const char* name, const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    Write(name, text);
  };
  write("metrics.jsonl", metrics);
  std::error_code error;
  if (!samples.empty()) {
    write("samples.jsonl", samples);
  } else {
    fs::remove(File("samples.jsonl"), error);
  }
  fs::remove(File("summary.json"), error);  // the summary of an earlier end
  samples_.reset();
  metrics_.emplace(File("metrics.jsonl"), /*append=*/true);
}

void RunDirectory::Write(const std::string& name, const std::string& content) const {
  if (!writes_) return;
  WriteWhole(File(name), content);
}

void RunDirectory::AppendMetrics(const std::string& json) {
  if (writes_) metrics_->Append(json);
}

void RunDirectory::AppendSample(const std::string& json) {
  if (!writes_) return;
  if (!samples_) samples_.emplace(File("samples.jsonl"), /*append=*/true);
  samples_->Append(json);
}

void RunDirectory::SyncLines() const {
  if (!writes_) return;
  metrics_->Sync();
  if (samples_) samples_->Sync();
}

}  // namespace plimsoll::trainer
