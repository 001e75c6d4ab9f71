#include "trainer/run_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <span>

#include "base/errno_text.h"
#include "base/output_file.h"
#include "base/write_all.h"

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
  try {
    lock_.emplace(path_, "trains there");
  } catch (const UserError& problem) {
    throw config.Error("run.dir", std::string(problem.what()) + "; name another folder, or wait");
  }
}

void RunDirectory::RequireReplaceable(const config::RunConfig& config) const {
  std::error_code error;
  if (!writes_ || config.run.overwrite || !fs::exists(File("metrics.jsonl"), error)) return;
  throw config.Error("run.dir", "'" + path_ +
                                    "' holds a run already; name another folder, or set "
                                    "run.overwrite: true to replace it, or go on with it by "
                                    "--resume auto if it has snapshots");
}

RunDirectory::~RunDirectory() {
  if (metrics_ >= 0) {
    close(metrics_);
    return;
  }
  if (!writes_) return;
  // Never begun. Folders that hold anything stay.
  lock_.reset();
  std::error_code ignored;
  fs::remove(model(), ignored);
  if (created_) fs::remove(path_, ignored);
}

void RunDirectory::Begin() {
  if (!writes_) return;
  // A model of other sizes beside the new configuration would be taken for this run's.
  std::error_code error;
  for (const std::string& folder : {File("model"), File("adapter")}) {
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
  fs::remove_all(File("snapshots"), error);
  Open(O_TRUNC);
}

void RunDirectory::Continue(const std::vector<std::string>& metrics) {
  if (!writes_) return;
  std::string text;
  for (const std::string& row : metrics) text += row + "\n";
  Write("metrics.jsonl", text);
  Open(O_APPEND);
}

void RunDirectory::Open(int how) {
  const std::string metrics = File("metrics.jsonl");
  if (metrics_ >= 0) close(metrics_);
  metrics_ = open(metrics.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
  if (metrics_ < 0) {
    throw UserError(metrics + ": cannot write (" + ErrnoText(errno) + ")");
  }
  metrics_bytes_ = lseek(metrics_, 0, SEEK_END);
}

void RunDirectory::Write(const std::string& name, const std::string& content) const {
  if (!writes_) return;
  OutputFile file(File(name));
  file.Write(content);
  file.Commit();
}

void RunDirectory::AppendMetrics(const std::string& json) {
  if (!writes_) return;
  const std::string line = json + "\n";
  if (!WriteAll(metrics_, std::as_bytes(std::span(line)))) {
    const int error = errno;
    // Half a line would spoil those behind it.
    if (ftruncate(metrics_, metrics_bytes_) == 0) lseek(metrics_, metrics_bytes_, SEEK_SET);
    throw UserError(File("metrics.jsonl") + ": cannot write (" + ErrnoText(error) + ")",
                    ExitCode::kInternal);
  }
  metrics_bytes_ += static_cast<int64_t>(line.size());
}

void RunDirectory::SyncMetrics() const {
  if (writes_) fdatasync(metrics_);
}

}  // namespace plimsoll::trainer
