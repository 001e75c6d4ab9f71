#include "trainer/run_directory.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/output_file.h"

namespace plimsoll::trainer {

namespace fs = std::filesystem;

RunDirectory::RunDirectory(const config::RunConfig& config, bool writes)
    : path_(config.run.dir), writes_(writes) {
  if (!writes_) return;
  std::error_code error;
  if (fs::exists(File("metrics.jsonl"), error) && !config.run.overwrite) {
    throw config.Error("run.dir", "'" + path_ +
                                      "' holds a run already; name another folder, or set "
                                      "run.overwrite: true to replace it");
  }
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
}

RunDirectory::~RunDirectory() {
  if (metrics_ != nullptr) {
    std::fclose(metrics_);
    return;
  }
  if (!writes_) return;
  // Never begun. Folders that hold anything stay.
  std::error_code ignored;
  fs::remove(model(), ignored);
  if (created_) fs::remove(path_, ignored);
}

void RunDirectory::Begin() {
  if (!writes_) return;
  // A model of other sizes beside the new configuration would be taken for this run's.
  std::error_code error;
  for (const auto& file : fs::directory_iterator(model(), error)) {
    const std::string name = file.path().filename();
    if (name == "config.json" || name.ends_with(".safetensors") ||
        name.ends_with(".safetensors.index.json")) {
      fs::remove(file.path(), error);
    }
  }
  for (const auto& file : fs::directory_iterator(path_, error)) {
    if (file.path().filename().string().starts_with("events.out.tfevents.")) {
      fs::remove(file.path(), error);
    }
  }
  const std::string metrics = File("metrics.jsonl");
  metrics_ = std::fopen(metrics.c_str(), "w");
  if (metrics_ == nullptr) {
    throw UserError(metrics + ": cannot write (" + std::strerror(errno) + ")");
  }
}

void RunDirectory::Write(const std::string& name, const std::string& content) const {
  if (!writes_) return;
  OutputFile file(File(name));
  file.Write(content);
  file.Commit();
}

void RunDirectory::AppendMetrics(const std::string& json) {
  if (!writes_) return;
  if (std::fputs((json + "\n").c_str(), metrics_) < 0 || std::fflush(metrics_) != 0) {
    throw UserError(File("metrics.jsonl") + ": cannot write (" + std::strerror(errno) + ")",
                    ExitCode::kInternal);
  }
}

}  // namespace plimsoll::trainer
