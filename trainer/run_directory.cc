#include "trainer/run_directory.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/output_file.h"

namespace plimsoll::trainer {

namespace fs = std::filesystem;

RunDirectory::RunDirectory(const config::RunConfig& config) : path_(config.run.dir) {
  const std::string metrics = File("metrics.jsonl");
  std::error_code error;
  if (fs::exists(metrics, error) && !config.run.overwrite) {
    throw config.Error("run.dir", "'" + path_ +
                                      "' holds a run already; name another folder, or set "
                                      "run.overwrite: true to replace it");
  }
  fs::create_directories(path_, error);
  if (error || access(path_.c_str(), W_OK | X_OK) != 0) {
    const std::string reason = error ? error.message() : std::strerror(errno);
    throw config.Error("run.dir", "cannot write to '" + path_ + "' (" + reason +
                                      "); name a folder that can be written, or change its rights");
  }
  metrics_ = std::fopen(metrics.c_str(), "w");
  if (metrics_ == nullptr) {
    throw config.Error("run.dir", "cannot write '" + metrics + "' (" + std::strerror(errno) + ")");
  }
}

RunDirectory::~RunDirectory() {
  if (metrics_ != nullptr) std::fclose(metrics_);
}

void RunDirectory::Write(const std::string& name, const std::string& content) const {
  OutputFile file(File(name));
  file.Write(content);
  file.Commit();
}

void RunDirectory::AppendMetrics(const std::string& json) {
  if (std::fputs((json + "\n").c_str(), metrics_) < 0 || std::fflush(metrics_) != 0) {
    throw UserError(File("metrics.jsonl") + ": cannot write (" + std::strerror(errno) + ")",
                    ExitCode::kInternal);
  }
}

}  // namespace plimsoll::trainer
