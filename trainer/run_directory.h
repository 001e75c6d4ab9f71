// The folder that a run leaves behind: config.yaml (resolved), plan.json, metrics.jsonl, model/.
#pragma once

#include <cstdio>
#include <string>

#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

class RunDirectory {
 public:
  // Creates config.run.dir. UserError (run.dir) when it can't be written to, or when it holds a run
  // already and run.overwrite is false.
  explicit RunDirectory(const config::RunConfig& config);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

  // Writes a whole file, which appears complete or not at all.
  void Write(const std::string& name, const std::string& content) const;
  // Appends a line to metrics.jsonl and flushes it.
  void AppendMetrics(const std::string& json);

 private:
  std::string path_;
  std::FILE* metrics_ = nullptr;
};

}  // namespace plimsoll::trainer
